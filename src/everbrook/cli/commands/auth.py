"""``everbrook apikey`` and ``everbrook sign``: API keys, and URLs that allow to read one stream for a time.

Both keep their keys in a file that a running server reads again within a second. An API key is printed only when it is
created: the file has its hash.
"""

import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from everbrook.cli.exits import NOT_THERE
from everbrook.cli.terminal.flags import Command, layer_flags, parse_duration
from everbrook.cli.terminal.output import align, complain, format_time, json_option, note, print_json
from everbrook.settings import load_settings

if TYPE_CHECKING:
    from everbrook.server.auth.signed_urls import UrlKeyFile

ROOTS = ("/v1/stream/", "/ds/")
TITLES = ("id", "created", "expires", "scopes", "note")


def key_file(setting: str) -> Callable[[Command], Command]:
    """Give a command the options that choose a file of keys, and pass it the `path`."""
    option = click.option(
        "--file",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"The file of keys.  [default: auth.{setting}]",
    )

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_path(*, file: Path | None, profile: str | None, config_file: Path | None, **others: object) -> object:
            return command(path=file or _configured_path(setting, profile, config_file), **others)

        return layer_flags(option(with_path))

    return decorate


def _configured_path(setting: str, profile: str | None, config_file: Path | None) -> Path:
    configured: str = getattr(load_settings(profile=profile, config_file=config_file).auth, setting)
    if not configured:
        variable = f"DS_AUTH__{setting.upper()}"
        raise click.UsageError(f"the file of keys is unknown: set auth.{setting} ({variable}), or pass --file")
    return Path(configured)


@click.group()
def apikey() -> None:
    """Create, list and revoke the API keys of a server."""


@apikey.command()
@click.option(
    "--scope", "scopes", multiple=True, required=True, metavar="SCOPE", help="The rights of the key; repeatable."
)
@click.option(
    "--for", "lifetime", type=parse_duration, metavar="DURATION", help="How long the key is valid.  [until revoked]"
)
@click.option("--note", "remark", default="", metavar="TEXT", help="A description of the key.")
@key_file("api_keys_path")
@json_option
def create(
    scopes: tuple[str, ...],
    lifetime: int | None,
    remark: str,
    *,
    path: Path,
    as_json: bool,
) -> None:
    """Create an API key and print it. The key can't be printed again.

    A scope has verbs and a path: read+append:/v1/stream/chats.
    """
    from everbrook.server.auth.api_keys import ApiKeyFile, format_file, make_key, parse_file
    from everbrook.server.auth.key_file import edit

    now = int(time.time())
    try:
        key, stored = make_key(" ".join(scopes), now, now + lifetime if lifetime else None, remark)
        edit(path, lambda text: format_file((parse_file(text) if text else ApiKeyFile()).add(stored)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json({"id": stored.id, "key": key, "scopes": stored.scopes, "expires_at_secs": stored.expires_at_secs})
        return
    click.echo(key)
    note(f"the key is shown only this once; `everbrook apikey revoke {stored.id}` revokes it")


@apikey.command(name="list")
@key_file("api_keys_path")
@json_option
def list_keys(*, path: Path, as_json: bool) -> None:
    """List the keys, without their secrets, which the file does not hold."""
    from everbrook.server.auth.api_keys import ApiKey, parse_file

    try:
        keys = parse_file(path.read_bytes()).keys
    except FileNotFoundError:
        raise click.ClickException(f"{path} does not exist: `everbrook apikey create` creates it") from None
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
@key_file("api_keys_path")
@json_option
def revoke(key_id: str, *, path: Path, as_json: bool) -> None:
    """Revoke a key: from now on servers refuse it."""
    from everbrook.server.auth.api_keys import ApiKeyFile, format_file, parse_file
    from everbrook.server.auth.key_file import edit

    # A user may paste the whole key instead of its id. Its secret must not be repeated in an error message.
    key_id = key_id.split("_")[1] if key_id.startswith("eb_") and "_" in key_id[3:] else key_id
    try:
        edit(path, lambda text: format_file((parse_file(text) if text else ApiKeyFile()).remove(key_id)))
    except KeyError:
        complain(f"{path} has no key {key_id[:40]!r}: `everbrook apikey list` prints the keys", NOT_THERE)
        click.get_current_context().exit(NOT_THERE)
    except ValueError as error:
        raise click.ClickException(f"{path} can't be used: {error}") from None
    if as_json:
        print_json({"id": key_id, "revoked": True})


@click.command()
@click.argument("target", metavar="URL-OR-PATH", required=False)
@click.option(
    "--for", "lifetime", type=parse_duration, default="1h", metavar="DURATION", help="How long the URL is valid.  [1h]"
)
@click.option("--new-key", is_flag=True, help="Sign with a new key from now on. URLs of other keys stay valid.")
@click.option("--drop-key", metavar="ID", help="Remove a key: URLs that it signed are refused from now on.")
@key_file("url_keys_path")
@json_option
def sign(target: str | None, lifetime: int, *, new_key: bool, drop_key: str | None, path: Path, as_json: bool) -> None:
    """Print URL-OR-PATH with a signature. With this URL anybody can read the stream, and do nothing else.

    URL-OR-PATH names a stream: http://…/v1/stream/NAME, /ds/BUCKET/NAME, or NAME alone. Parameters such as offset and
    live may be added later.
    """
    if target is None and not (new_key or drop_key):
        raise click.UsageError("nothing to sign: pass the URL or the path of a stream")
    try:
        if new_key:
            _add_key(path)
        if drop_key:
            _drop_key(path, drop_key)
        file_of_keys = _load(path)
    except ValueError as error:
        raise click.ClickException(f"{path} can't be used: {error}") from None
    if target is not None:
        end = int(time.time()) + lifetime
        _show(_sign(file_of_keys, target, end), end, as_json=as_json)


def _show(url: str, expires_at_secs: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"url": url, "expires_at_secs": expires_at_secs})
    else:
        click.echo(url)


def _sign(file: "UrlKeyFile", target: str, expires_at_secs: int) -> str:
    from everbrook.protocol.errors import ProtocolError
    from everbrook.server.auth.signed_urls import sign as sign_name, signed_name

    url = _url(target)
    try:
        name = signed_name(_server_path(urlsplit(url).path).encode())
    except ProtocolError as error:
        raise click.UsageError(error.detail) from None
    joint = "&" if "?" in url else "?"
    return f"{url}{joint}{sign_name(name, expires_at_secs, file.keys[0])}"


def _url(target: str) -> str:
    """Return the URL or path to sign. A name alone becomes the path of the stream."""
    if not target.isascii() or not target.isprintable() or "#" in target or " " in target:
        raise click.UsageError(
            f"a URL must be printable ASCII without spaces and fragment, got {target[:80]!r}: percent-encode the rest"
        )
    if "signature=" in target:
        raise click.UsageError("the URL has a signature already: pass it without the signature")
    return target if "://" in target or target.startswith("/") else ROOTS[0] + target


def _server_path(path: str) -> str:
    """Return the path that the server receives: a proxy in front of it may add a prefix."""
    starts = [found for root in ROOTS if (found := path.find(root)) >= 0]
    return path[min(starts) :] if starts else path


def _load(path: Path) -> "UrlKeyFile":
    from everbrook.server.auth.signed_urls import parse_file

    try:
        return parse_file(path.read_bytes())
    except FileNotFoundError:
        raise click.ClickException(f"{path} does not exist: `everbrook sign --new-key` creates it") from None


def _add_key(path: Path) -> None:
    from everbrook.server.auth.key_file import edit
    from everbrook.server.auth.signed_urls import UrlKeyFile, format_file, make_key, parse_file

    key = make_key(int(time.time()))
    edit(path, lambda text: format_file(UrlKeyFile((key, *(parse_file(text).keys if text else ())))))
    note(f"URLs are signed with the key {key.id} from now on")


def _drop_key(path: Path, key_id: str) -> None:
    from everbrook.server.auth.key_file import edit
    from everbrook.server.auth.signed_urls import UrlKeyFile, format_file, parse_file

    file = _load(path)
    if key_id not in {key.id for key in file.keys}:
        raise click.ClickException(f"{path} has no key {key_id[:40]!r}")
    if len(file.keys) == 1:
        raise click.ClickException(f"{key_id} is the only key: --new-key creates another one in the same command")

    def without(text: bytes | None) -> bytes:
        kept = parse_file(text or b"").keys
        return format_file(UrlKeyFile(tuple(key for key in kept if key.id != key_id)))

    edit(path, without)
