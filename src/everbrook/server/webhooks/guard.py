"""The guard of webhooks: it decides to which URLs and addresses the server may POST (§6.2, §12.8).

Allowed are `https` to public addresses and, if a setting allows it, `http` to this machine's loopback. A URL that two
parsers could read differently is refused. Names are resolved here, and connections use the addresses that `resolve`
returned: a second lookup could return another address (DNS rebinding). An address is refused unless the registries of
special addresses leave it to the public. An IPv6 address that embeds an IPv4 address is judged by that address. The
table is our own, so that all versions of Python judge alike.
"""

import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NoReturn

from msgspec import Struct

from everbrook.protocol.errors import WebhookUrlRejected, quoted

Address = IPv4Address | IPv6Address

_SPECIAL_V4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by the customers of a carrier"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "the metadata service of a cloud"),  # a public number, but the host itself on Azure
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_SPECIAL_V6 = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),  # Teredo, benchmarking, identifiers that can't be reached
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
    )
)

_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_ISATAP_MARKS = {0x00005EFE, 0x02005EFE}
_LOW_32_BITS = 0xFFFFFFFF


MAX_URL_BYTES = 2048
MAX_ADDRESSES = 16
DEFAULT_PORTS = {"https": 443, "http": 80}
LOCALHOST = "localhost"
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name, as text, or raises OSError."""
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


def parse_address(text: str) -> Address:
    """Read an address of a resolver or a URL. An IPv4-mapped IPv6 address becomes the IPv4 address."""
    address = ip_address(text)
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def special(address: Address) -> str | None:
    """Return why an address is not public, or None if it is public."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_V4 if address in network), None)
    inner = embedded(address)
    if inner is not None and special(inner) is not None:
        return special(inner)
    kind = next((kind for network, kind in _SPECIAL_V6 if address in network), None)
    return kind or (None if address in _PUBLIC_V6 or address in _NAT64 or address.ipv4_mapped else "reserved")


def embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address contains, and to which its packets are finally sent."""
    number = int(address)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _SIX_TO_FOUR:
        return address.sixtofour
    if address in _NAT64 or (number >> 32) & _LOW_32_BITS in _ISATAP_MARKS:
        return IPv4Address(number & _LOW_32_BITS)
    return None


class Target(Struct, frozen=True):
    """The target of a webhook whose URL was allowed. `host` has no brackets; `address` is None if it is a name."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None = None

    @property
    def local(self) -> bool:
        """Whether it is on this machine: only that may use `http`, and must not use `https`."""
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
    """Read a webhook's URL, or refuse it. No name is resolved."""
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
    """Return the addresses to connect to, at least one. A name with any address that is not public is refused.

    Raise `WebhookUrlRejected`, or OSError if the name has no address now.
    """
    if target.address is not None:
        return [target.address]
    if target.local:
        return [IPv4Address("127.0.0.1"), IPv6Address("::1")]  # RFC 6761: it is never resolved by a name server
    found = [parse_address(text) for text in await resolver(target.host, target.port)]
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, f"{target.host} has no address")
    for address in found:
        kind = special(address)
        if kind is not None:  # the address is not shown: it may be of a private network
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
        _refuse("must not contain credentials: deliveries are signed instead")
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
    """Check a name. If its last label is a number in any notation, resolvers read it as an address: return that."""
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
