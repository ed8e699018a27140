"""The guard of webhooks: which URLs the server may be told to POST to (§6.2, §12.8).

The rule: `https` to public addresses, or, where a setting allows it, `http` to this machine's loopback; nothing else.
A URL that two parsers could read differently is refused, names are resolved here, and whoever connects uses the
addresses that `resolve` gave and looks nothing up again.
"""

import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import NoReturn

from msgspec import Struct

from everbrook.protocol.errors import WebhookUrlRejected, quoted
from everbrook.server.webhooks.addresses import Address, parse_address, special

MAX_URL_BYTES = 2048
MAX_ADDRESSES = 16
DEFAULT_PORTS = {"https": 443, "http": 80}
LOCALHOST = "localhost"

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a name, as text, or raises OSError."""

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?]*)(?P<path>/[^?]*)?(?P<query>\?.*)?", re.ASCII
)
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?P<colon>:(?P<port>[0-9]*))?")
_AMBIGUOUS = re.compile(r"[^\x21-\x7e]|[\\\"<>^`{|}]")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_MAX_PORT = 65535
_MAX_NAME_BYTES = 253


class Target(Struct, frozen=True):
    """Where a webhook goes, once its URL has passed. `host` has no brackets; `address` is it, unless it is a name."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None = None

    @property
    def local(self) -> bool:
        """Whether it goes to this machine: only that may be `http`, and `https` never is."""
        return self.scheme == "http"

    @property
    def authority(self) -> str:
        """The value of `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in its one spelling."""
        return f"{self.scheme}://{self.authority}{self.path}"


def check_url(url: str, *, allow_loopback_http: bool) -> Target:
    """Read a webhook's URL, or say why the server will not deliver to it. Nothing is looked up."""
    parts = _split(url)
    scheme = parts["scheme"].lower()
    if scheme not in DEFAULT_PORTS:
        _refuse(f"must begin with https://, got {_shown(url)}")
    host, address, port = _parse_authority(parts["authority"], url)
    path = (parts["path"] or "/") + (parts["query"] or "")
    target = Target(scheme, host, port or DEFAULT_PORTS[scheme], path, address)
    if target.local:
        _check_local(target, allow_loopback_http=allow_loopback_http)
    else:
        _check_public(target)
    return target


async def resolve(target: Target, resolver: Resolver) -> list[Address]:
    """Give the addresses that may be connected to, at least one; a name with any other address is refused as a whole.

    Raises WebhookUrlRejected, or OSError where the name has no address now.
    """
    if target.address is not None:
        return [target.address]
    if target.local:
        return [IPv4Address("127.0.0.1"), IPv6Address("::1")]  # RFC 6761: never a question for a name server
    found = [parse_address(text) for text in await resolver(target.host, target.port)]
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, f"{target.host} has no address")
    for address in found:
        kind = special(address)
        if kind is not None:  # the address is not told: names inside a network are none of a subscriber's business
            _refuse(f"must lead to public addresses only; {target.host} has one that is {kind}")
    return list(dict.fromkeys(found))[:MAX_ADDRESSES]


def _split(url: str) -> re.Match[str]:
    if len(url) > MAX_URL_BYTES:
        _refuse(f"must have at most {MAX_URL_BYTES} characters, got {len(url)}")
    ambiguous = _AMBIGUOUS.search(url)
    if ambiguous:
        _refuse(
            f"must be printable ASCII without blanks, quotes, backslashes and the like "
            f"(percent-encode a path, write a name in its xn-- form), got {ambiguous[0]!a}"
        )
    if "#" in url:
        _refuse(f"must have no fragment, got {_shown(url)}")
    parts = _URL.fullmatch(url)
    return parts or _refuse(f"must be an absolute URL such as https://worker.example/hooks, got {_shown(url)}")


def _parse_authority(authority: str, url: str) -> tuple[str, Address | None, int | None]:
    if "@" in authority:
        _refuse("must not carry credentials: deliveries are signed instead")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        _refuse(f"must have a host name or an address after its scheme, got {_shown(url)}")
    port = _parse_port(parts["port"]) if parts["colon"] else None
    if parts["v6"]:
        address = _parse_v6(parts["v6"])
        return str(address), address, port
    name = parts["name"].lower()
    return name, _parse_name(name), port


def _parse_port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > _MAX_PORT:
        _refuse(f"must have a port from 1 to {_MAX_PORT}, got {_shown(text)}")
    return int(text)


def _parse_v6(text: str) -> Address:
    try:
        return parse_address(str(IPv6Address(text)))
    except ValueError:
        _refuse(f"must have an IPv6 address between its brackets, got {_shown(text)}")


def _parse_name(name: str) -> Address | None:
    """Check a name; give its address if it is one. A last label that is a number makes it one, in whatever notation."""
    labels = name.split(".")
    if _NUMERIC_LABEL.fullmatch(labels[-1] or labels[-2:][0]):
        try:
            return IPv4Address(name)
        except ValueError:
            _refuse(f"must have an IPv4 address as four decimal numbers, got {_shown(name)}")
    if len(name) > _MAX_NAME_BYTES or not all(_LABEL.fullmatch(label) for label in labels):
        _refuse(f"must have a host name of letters, digits and hyphens between single dots, got {_shown(name)}")
    return None


def _check_local(target: Target, *, allow_loopback_http: bool) -> None:
    if not allow_loopback_http:
        _refuse(f"must begin with https://, got {_shown(target.url)}")
    if target.host != LOCALHOST and (target.address is None or not target.address.is_loopback):
        _refuse(f"may be http only to localhost, 127.0.0.0/8 or [::1]; {_shown(target.host)} needs https")


def _check_public(target: Target) -> None:
    if target.address is not None:
        kind = special(target.address)
        if kind is not None:
            _refuse(f"must lead to a public address; {target.host} is {kind}")
    elif "." not in target.host:
        _refuse(f"must have a full host name, got {_shown(target.host)}, which means something else on every network")


def _shown(text: str) -> str:
    return quoted(text.encode("utf-8", "backslashreplace"))


def _refuse(reason: str) -> NoReturn:
    raise WebhookUrlRejected(f"webhook.url {reason}")
