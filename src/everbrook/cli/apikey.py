"""``everbrook apikey``: the API keys of a server. A running one takes what is changed here within a second.

The rule: a key is printed once, when it is made. The file has its hash alone.
"""

import time
from pathlib import Path

import click

from everbrook.cli.durations import parse_duration
from everbrook.cli.exits import NOT_THERE
from everbrook.cli.flags import Command, layer_flags
from everbrook.cli.output import align, complain, format_time, json_option, note, print_json
from everbrook.settings import load_settings

TITLES = ("id", "created", "expires", "scopes", "note")


def file_options(command: Command) -> Command:
    """Give a command the options that say which file is meant."""
    option = click.option(
        "--file",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The file of keys.  [default: auth.api_keys_path]",
    )
    return layer_flags(option(command))


@click.group()
def apikey() -> None:
    """Create, list and revoke the API keys of a server."""


@apikey.command()
@click.option("--scope", "scopes", multiple=True, required=True, metavar="SCOPE", help="What it allows. Again.")
@click.option(
    "--for", "lifetime", type=parse_duration, metavar="DURATION", help="How long it is good.  [until revoked]"
)
@click.option("--note", "remark", default="", metavar="TEXT", help="What it is for.")
@file_options
@json_option
def create(
    scopes: tuple[str, ...],
    lifetime: int | None,
    remark: str,
    *,
    file: Path | None,
    profile: str | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Make a key and print it. It can't be printed again.

    A scope is verbs and a path: read+append:/v1/stream/chats.
    """
    from everbrook.server.auth.api_keys import ApiKeyFile, format_file, make_key, parse_file  # noqa: PLC0415
    from everbrook.server.auth.key_file import edit  # noqa: PLC0415

    now = int(time.time())
    path = _path(file, profile, config_file)
    try:
        key, stored = make_key(" ".join(scopes), now, now + lifetime if lifetime else None, remark)
        edit(path, lambda text: format_file((parse_file(text) if text else ApiKeyFile()).add(stored)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json({"id": stored.id, "key": key, "scopes": stored.scopes, "expires_at_secs": stored.expires_at_secs})
        return
    click.echo(key)
    note(f"this is the only time that the key is shown; `everbrook apikey revoke {stored.id}` takes it back")


@apikey.command(name="list")
@file_options
@json_option
def list_keys(*, file: Path | None, profile: str | None, config_file: Path | None, as_json: bool) -> None:
    """List the keys, without their secrets, which nobody has."""
    from everbrook.server.auth.api_keys import ApiKey, parse_file  # noqa: PLC0415

    path = _path(file, profile, config_file)
    try:
        keys = parse_file(path.read_bytes()).keys
    except FileNotFoundError:
        raise click.ClickException(f"there is no {path}: `everbrook apikey create` makes it") from None
    except ValueError as error:
        raise click.ClickException(f"{path} can't be used: {error}") from None
    if as_json:
        for key in keys:
            print_json({name: getattr(key, name) for name in ApiKey.__struct_fields__ if name != "sha256"})
        return
    rows = [
        (
            key.id,
            format_time(key.created_at_secs * 1000),
            format_time(key.expires_at_secs * 1000) if key.expires_at_secs else "never",
            key.scopes,
            key.note or "-",
        )
        for key in keys
    ]
    click.echo("\n".join(align([TITLES, *rows])))


@apikey.command()
@click.argument("key_id", metavar="ID")
@file_options
@json_option
def revoke(key_id: str, *, file: Path | None, profile: str | None, config_file: Path | None, as_json: bool) -> None:
    """Take a key back: from now on it is refused."""
    from everbrook.server.auth.api_keys import ApiKeyFile, format_file, parse_file  # noqa: PLC0415
    from everbrook.server.auth.key_file import edit  # noqa: PLC0415

    path = _path(file, profile, config_file)
    # Whoever pastes the whole key means its id, and should not find the secret in an error message.
    key_id = key_id.split("_")[1] if key_id.startswith("eb_") and "_" in key_id[3:] else key_id
    try:
        edit(path, lambda text: format_file((parse_file(text) if text else ApiKeyFile()).remove(key_id)))
    except KeyError:
        complain(f"{path} has no key {key_id[:40]!r}: `everbrook apikey list` names those it has", NOT_THERE)
        click.get_current_context().exit(NOT_THERE)
    except ValueError as error:
        raise click.ClickException(f"{path} can't be used: {error}") from None
    if as_json:
        print_json({"id": key_id, "revoked": True})


def _path(file: Path | None, profile: str | None, config_file: Path | None) -> Path:
    if file is not None:
        return file
    configured = load_settings(profile=profile, config_file=config_file).auth.api_keys_path
    if not configured:
        raise click.UsageError("which file? Set auth.api_keys_path (DS_AUTH__API_KEYS_PATH), or pass --file")
    return Path(configured)
