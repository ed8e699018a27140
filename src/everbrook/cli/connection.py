"""The connection of a command: --url and --token, before or after the command, or the environment."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import click

from everbrook.cli.terminal.output import Command
from everbrook.client.environment import DEFAULT_URL, TOKEN, URL, server_url

if TYPE_CHECKING:
    import ssl

    import httpx2

    from everbrook import Bucket, Client, Stream
    from everbrook.client._sync.wire import Wire
    from everbrook.client.models import Head

CA = "EVERBROOK_CA"
CLIENT_CERT = "EVERBROOK_CLIENT_CERT"
CLIENT_KEY = "EVERBROOK_CLIENT_KEY"
_SECRETS = re.compile(r"//[^/?#]*@")


def shown_url(url: str) -> str:
    """Return a URL without its credentials, to print or to store it."""
    return _SECRETS.sub("//…@", url)


def server_options(command: Command) -> Command:
    """Give a command the options of the connection. The last one on the command line wins."""
    for name, metavar, text in (
        ("client-key", "FILE", f"The private key of --client-cert, unless it is in the same file.  [{CLIENT_KEY}]"),
        ("client-cert", "FILE", f"The certificate to present, if the server requests one.  [{CLIENT_CERT}]"),
        ("ca", "FILE", f"Trust these authorities instead of the system's, for an https URL.  [{CA}]"),
        ("token", "TOKEN", f"The bearer token to send. Other users can see options, not variables.  [{TOKEN}]"),
        ("url", "URL", f"The URL of the server.  [{URL}; default {DEFAULT_URL}]"),
    ):
        option = click.option(f"--{name}", metavar=metavar, help=text, callback=_remember, expose_value=False)
        command = option(command)
    return command


def bucket_option(command: Command) -> Command:
    """Give a command the option that says which bucket a stream is in."""
    return click.option(
        "-b", "--bucket", metavar="BUCKET", help="The bucket of the stream or subscription, if it is in one."
    )(command)


def offset_option(name: str, text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Give a command an option that is an offset, whose leading zeros may be left out."""
    return click.option(name, metavar="OFFSET", help=text, required=required, callback=_pad)


def _pad(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if not (text and text.isascii() and text.isdigit()):
        return text
    from everbrook.protocol.offset import OFFSET_DIGITS

    return text.zfill(OFFSET_DIGITS)


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[f"everbrook.{parameter.name}"] = value


def _given(name: str) -> str | None:
    found: str | None = click.get_current_context().meta.get(f"everbrook.{name}")
    return found


def given_url(usual: str = DEFAULT_URL) -> str:
    """Return the URL of the server, or the `usual` one if no URL is set."""
    return server_url(_given("url"), default=usual)


def given_token() -> str | None:
    """Return the token to send, or None."""
    token = (_given("token") or os.environ.get(TOKEN) or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise click.UsageError(
            "a token must be printable ASCII, in one line: --token or EVERBROOK_TOKEN has other characters"
        )
    return token or None


def given_context() -> "ssl.SSLContext | None":
    """Return the TLS context for --ca and --client-cert, or None if neither is given."""
    ca, cert = _given("ca") or os.environ.get(CA), _given("client_cert") or os.environ.get(CLIENT_CERT)
    if not (ca or cert):
        return None
    import ssl  # plain http does not need it

    try:
        context = ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise click.UsageError(f"--ca must hold PEM certificates, got {ca}: {error.strerror or error}") from error
    if cert:
        _load_certificate(context, cert)
    return context


def _load_certificate(context: "ssl.SSLContext", path: str) -> None:
    try:
        context.load_cert_chain(path, _given("client_key") or os.environ.get(CLIENT_KEY))
    except OSError as error:
        raise click.UsageError(
            f"--client-cert must be a PEM certificate, with its key or with --client-key, got {path}: "
            f"{error.strerror or error}"
        ) from error


def open_client(*, patient: bool = False) -> "AbstractContextManager[Client]":
    """Open a client. It retries briefly, for a user who waits; a `patient` one retries as the library does."""
    _load_msgspec()
    # Imported here: help needs no client.
    from everbrook import Client, Retry

    retry = Retry() if patient else Retry(max_attempts=3)
    try:
        return Client(given_url(), token=given_token(), http=shared_wire(), retry=retry)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _load_msgspec() -> None:
    """Load msgspec without typing_extensions, which takes longer to load than msgspec itself.

    msgspec falls back to `typing`, which has the same names. Later imports of typing_extensions succeed.
    """
    if "typing_extensions" in sys.modules:
        return
    # None makes Python raise ImportError for this module.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def shared_wire() -> "httpx2.Client | Wire":
    """Return the connections that all clients of a command share. They are closed when the command ends."""
    context = click.get_current_context().find_root()
    if "everbrook.wire" not in context.meta:
        context.meta["everbrook.wire"] = wire = _opened_wire()
        context.call_on_close(wire.close)
    shared: httpx2.Client | Wire = context.meta["everbrook.wire"]
    return shared


def _opened_wire() -> "httpx2.Client | Wire":
    context = given_context()
    return _loaded(context) if context is not None or _has_proxy() else _plain()


def _plain() -> "Wire":
    from everbrook.client.wire.http1 import PlainWire

    return PlainWire()


def _loaded(context: "ssl.SSLContext | None") -> "httpx2.Client":
    import httpx2

    return httpx2.Client(verify=True if context is None else context)


def _has_proxy() -> bool:
    """Return whether a proxy is set, in the environment or in the settings of macOS and Windows."""
    if any(name.lower().endswith("_proxy") for name in os.environ):
        return True
    if not sys.platform.startswith(("darwin", "win")):
        return False
    from urllib.request import getproxies

    return bool(getproxies())


@contextmanager
def open_stream(name: str, bucket: str | None) -> "Iterator[Stream[Any]]":
    with open_client() as client:
        yield find_stream(client, name, bucket)


@contextmanager
def open_described(name: str, bucket: str | None) -> "Iterator[tuple[Stream[Any], Head]]":
    """Open a stream with its description, for a command that retries patiently afterwards.

    The description is requested with few retries, so that a wrong name or URL is reported soon.
    """
    with open_client() as client:
        head = find_stream(client, name, bucket).head()
    with open_client(patient=True) as client:
        yield find_stream(client, name, bucket, head.content_type), head


def find_stream(client: "Client", name: str, bucket: str | None, content_type: str | None = None) -> "Stream[Any]":
    """Return a handle of a stream. Passing its `content_type` saves a request."""
    try:
        return root_of(client, bucket).stream(name, content_type=content_type)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def root_of(client: "Client", bucket: str | None) -> "Client | Bucket":
    """Return the bucket, or the client itself for streams that are in none."""
    return client if bucket is None else client.bucket(bucket)
