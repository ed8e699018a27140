"""``everbrook keys``: the keys that sign webhooks (§6.5).

The rule: one process at a time uses a store. If a server uses it, SIGUSR1 asks that server to rotate, but only if the
process has a handler for the signal: the default action would end any other process.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from everbrook.cli.store_process import ask, find_holder, store_flags, store_settings
from everbrook.cli.terminal.output import format_time, json_option, print_json
from everbrook.settings import Settings

if TYPE_CHECKING:
    from everbrook.engine.engine import Engine

T = TypeVar("T")

INSTEAD = "send SIGUSR1 to a server to rotate its keys"


@click.group()
def keys() -> None:
    """List or rotate the keys that sign webhooks."""


@keys.command(name="list")
@store_flags
@json_option
def list_keys(profile: str | None, config_file: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """List the keys of the store of the settings, the signing key first. No server may be using the store."""
    settings = store_settings(profile, config_file, flags, INSTEAD)
    holder = find_holder(settings)
    if holder is not None:
        raise click.ClickException(
            f"{settings.storage.store_dir} is in use by process {holder}; "
            f"its published keys are at …/__ds/jwks.json below its URL"
        )
    if as_json:
        for key in _in_store(settings, _facts):
            print_json(key)
    else:
        click.echo("\n".join(_in_store(settings, _describe)))


@keys.command()
@store_flags
@json_option
def rotate(profile: str | None, config_file: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Sign webhooks with a new key from now on.

    The public half of the old key stays published for webhooks.key_overlap_secs. If a server is using the store, the
    command asks it to rotate, and the output of the server names the new key.
    """
    settings = store_settings(profile, config_file, flags, INSTEAD)
    holder = find_holder(settings)
    if holder is not None:
        ask(holder, signal.SIGUSR1, "rotates")
        if as_json:
            print_json({"asked_process": holder})
            return
        click.echo(f"asked the server (process {holder}) to rotate; its output names the new key")
        return
    kid = _in_store(settings, lambda engine: _rotate(engine, settings.webhooks.key_overlap_secs))
    if as_json:
        print_json({"kid": kid})
    else:
        click.echo(f"webhooks are signed with {kid} from now on")


def _in_store(settings: Settings, act: "Callable[[Engine], T]") -> T:
    """Run a function on a store that no server uses, and return when its changes are durable."""
    # Imported here: the other commands need neither an event loop nor storage.
    import asyncio

    from everbrook.storage.manifest import StoreError

    try:
        return asyncio.run(_in_engine(settings, act))
    except (OSError, StoreError) as error:
        raise click.ClickException(str(error)) from error


async def _in_engine(settings: Settings, act: "Callable[[Engine], T]") -> T:
    """Run an engine without subscriptions, so that it delivers nothing."""
    import asyncio

    from everbrook.engine.clock import Clock
    from everbrook.engine.engine import Engine
    from everbrook.server.assembly import limits_of, open_storage

    loop = asyncio.get_running_loop()
    engine = Engine(open_storage(settings), loop, Clock(), limits_of(settings))
    try:
        done = act(engine)
        durable = loop.create_future()
        engine.when_durable(engine.last_change, durable.set_result)
        failure = await durable
    finally:
        engine.close()
    if failure:
        raise click.ClickException(f"the store did not store the change: {failure.detail}")
    return done


def _rotate(engine: "Engine", overlap_secs: int) -> str:
    """Rotate the keys, or make the first one."""
    from everbrook.server.webhooks.secrets import RECORD, Secrets

    first = not engine.exists(RECORD)
    secrets = Secrets(engine)
    return secrets.ring.active.kid if first else secrets.rotate(overlap_secs)


def _describe(engine: "Engine") -> list[str]:
    lines = [
        f"{key['kid']}  signs" if key["signs"] else f"{key['kid']}  published until {key['published_until']}"
        for key in _facts(engine)
    ]
    return lines or ["there are no keys yet: the first subscription makes one"]


def _facts(engine: "Engine") -> list[dict[str, object]]:
    """Return the published keys as JSON keys, the signing key first."""
    from everbrook.server.webhooks.secrets import RECORD, Secrets, format_kid

    if not engine.exists(RECORD):
        return []
    ring, now_secs = Secrets(engine).ring, engine.clock.now() // 1000
    facts: list[dict[str, object]] = [{"kid": ring.active.kid, "signs": True}]
    for key in ring.retired:
        if now_secs < key.published_until_secs:
            until = format_time(key.published_until_secs * 1000)
            facts.append({"kid": format_kid(key.public), "signs": False, "published_until": until})
    return facts
