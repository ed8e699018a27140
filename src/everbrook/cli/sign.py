"""``everbrook sign``: URLs that let whoever has them read one stream for a time."""

import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from everbrook.cli.durations import parse_duration
from everbrook.cli.flags import layer_flags
from everbrook.cli.output import json_option, note, print_json
from everbrook.settings import load_settings

if TYPE_CHECKING:
    from everbrook.server.auth.signed_urls import UrlKeyFile

LIFETIME = "1h"
ROOTS = ("/v1/stream/", "/ds/")


@click.command()
@click.argument("target", metavar="URL-OR-PATH", required=False)
@click.option(
    "--for", "lifetime", type=parse_duration, default=LIFETIME, metavar="DURATION", help="How long it is good.  [1h]"
)
@click.option("--new-key", is_flag=True, help="Sign with a new key from now on. URLs of the others stay good.")
@click.option("--drop-key", metavar="ID", help="Forget a key: the URLs that it signed are refused from now on.")
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file of keys.  [default: auth.url_keys_path]",
)
@layer_flags
@json_option
def sign(  # noqa: PLR0913 - an option each
    target: str | None,
    lifetime: int,
    *,
    new_key: bool,
    drop_key: str | None,
    file: Path | None,
    profile: str | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Print URL-OR-PATH with a signature: it can be read by anybody who has it, and nothing else can be done with it.

    URL-OR-PATH is that of a stream: http://…/v1/stream/NAME, /ds/BUCKET/NAME, or the NAME of a stream alone. Parameters
    such as offset and live may be added later.
    """
    path = _path(file, profile, config_file)
    if target is None and not (new_key or drop_key):
        raise click.UsageError("what is to be signed? Give the URL or the path of a stream")
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
    from everbrook.protocol.errors import ProtocolError  # noqa: PLC0415
    from everbrook.server.auth.signed_urls import sign as sign_name, signed_name  # noqa: PLC0415

    url = _url(target)
    try:
        name = signed_name(_server_path(urlsplit(url).path).encode())
    except ProtocolError as error:
        raise click.UsageError(error.detail) from None
    joint = "&" if "?" in url else "?"
    return f"{url}{joint}{sign_name(name, expires_at_secs, file.keys[0])}"


def _url(target: str) -> str:
    """Give what was meant: the name of a stream alone stands for its path."""
    if not target.isascii() or not target.isprintable() or "#" in target or " " in target:
        raise click.UsageError("a URL is printable ASCII without blanks and fragment: percent-encode the rest")
    if "signature=" in target:
        raise click.UsageError("the URL has a signature already")
    return target if "://" in target or target.startswith("/") else ROOTS[0] + target


def _server_path(path: str) -> str:
    """Give the path as the server sees it: a proxy in front of it may have more."""
    starts = [found for root in ROOTS if (found := path.find(root)) >= 0]
    return path[min(starts) :] if starts else path


def _load(path: Path) -> "UrlKeyFile":
    from everbrook.server.auth.signed_urls import parse_file  # noqa: PLC0415

    try:
        return parse_file(path.read_bytes())
    except FileNotFoundError:
        raise click.ClickException(f"there is no {path}: `everbrook sign --new-key` makes it") from None


def _add_key(path: Path) -> None:
    from everbrook.server.auth.key_file import edit  # noqa: PLC0415
    from everbrook.server.auth.signed_urls import UrlKeyFile, format_file, make_key, parse_file  # noqa: PLC0415

    key = make_key(int(time.time()))
    edit(path, lambda text: format_file(UrlKeyFile((key, *(parse_file(text).keys if text else ())))))
    note(f"URLs are signed with the key {key.id} from now on")


def _drop_key(path: Path, key_id: str) -> None:
    from everbrook.server.auth.key_file import edit  # noqa: PLC0415
    from everbrook.server.auth.signed_urls import UrlKeyFile, format_file, parse_file  # noqa: PLC0415

    file = _load(path)
    if key_id not in {key.id for key in file.keys}:
        raise click.ClickException(f"{path} has no key {key_id[:40]!r}")
    if len(file.keys) == 1:
        raise click.ClickException(f"{key_id} is the only key: --new-key makes another one in the same command")

    def without(text: bytes | None) -> bytes:
        kept = parse_file(text or b"").keys
        return format_file(UrlKeyFile(tuple(key for key in kept if key.id != key_id)))

    edit(path, without)


def _path(file: Path | None, profile: str | None, config_file: Path | None) -> Path:
    if file is not None:
        return file
    configured = load_settings(profile=profile, config_file=config_file).auth.url_keys_path
    if not configured:
        raise click.UsageError("which file? Set auth.url_keys_path (DS_AUTH__URL_KEYS_PATH), or pass --file")
    return Path(configured)
