"""Proxies in front of the server: which ones are trusted to name their clients, by identity and address.

Any client can send the headers that a proxy sends. They count only on a connection from the address of a trusted proxy,
and are ignored on every other. An address that itself comes from a header (`Peer.told`) is never trusted.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from everbrook.protocol.errors import Unauthorized, quoted
from everbrook.server.exchange import Request

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FORWARDED_FOR = b"x-forwarded-for"
NAMING = (FORWARDED_FOR, b"forwarded", b"x-real-ip", b"x-client-ip", b"true-client-ip", b"cf-connecting-ip")
"""Headers in which proxies name the address of their client."""
SIGNS = (*NAMING, b"via", b"x-forwarded-host", b"x-forwarded-proto", b"x-envoy-external-address", b"x-jwt-sub")
"""Headers that only proxies send."""
MAX_HOPS = 32
MAX_SUBJECT_BYTES = 256
WIDEST_BITS = 8

_SEPARATORS = re.compile(r"[,\s]+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


def parse_networks(text: str) -> tuple[Network, ...]:
    """Read addresses and networks separated by commas. Raise ValueError for one that is neither."""
    return tuple(ip_network(word) for word in _SEPARATORS.split(text) if word)


def too_wide(networks: tuple[Network, ...]) -> list[str]:
    """Return the networks that are so wide that they must contain addresses of strangers."""
    return [str(network) for network in networks if network.prefixlen < WIDEST_BITS]


def is_forwarded(request: Request) -> bool:
    """Tell whether a request shows that a proxy has forwarded it: then its client is not the peer."""
    return any(name in request.headers for name in SIGNS)


class Proxies:
    """The trusted proxies."""

    def __init__(self, trusted: str = "", identity_header: str = "") -> None:
        """The arguments are the settings `auth.trusted_proxies` and `auth.identity_header`."""
        self.networks = parse_networks(trusted)
        self._identity_header = identity_header.lower().encode()
        # There are far fewer addresses than requests, so the results are cached.
        self._trusts = lru_cache(maxsize=1024)(self._find_trust)

    def trusts(self, address: str) -> bool:
        """Tell whether this is the address of a trusted proxy."""
        return bool(self.networks) and self._trusts(address)

    def _find_trust(self, address: str) -> bool:
        found = _parse_address(address)
        return found is not None and any(found in network for network in self.networks)

    def speaks(self, request: Request) -> bool:
        """Tell whether a request comes from a trusted proxy, on behalf of its client."""
        return not request.peer.told and self.trusts(request.peer.address)

    def proxied_identity(self, request: Request) -> str | None:
        """Return the subject that a trusted proxy names. On other connections the header is ignored.

        If the header is repeated, one of the two came from the client, which claims another identity.
        """
        subject = request.headers.get(self._identity_header)
        if not subject or not self.speaks(request):
            return None
        name = self._identity_header.decode()
        if b"," in subject:
            raise Unauthorized(f"{name} must be given once, by the proxy alone, got {quoted(subject)}")
        try:
            text = subject.decode()
        except UnicodeDecodeError:
            raise Unauthorized(f"{name} must be UTF-8, got {quoted(subject)}") from None
        if len(subject) > MAX_SUBJECT_BYTES or _UNPRINTABLE.search(text):
            raise Unauthorized(f"{name} must be at most {MAX_SUBJECT_BYTES} bytes of text, got {quoted(subject)}")
        return text

    def client_address(self, request: Request) -> str:
        """Return the address of the client of a request, for limits and logs.

        That is the other end of the connection. If that is a trusted proxy, it is the last address in
        `X-Forwarded-For` that is not a trusted proxy's. The addresses before it are not verified: the client could have
        sent them itself.
        """
        address = request.peer.address
        forwarded = request.headers.get(FORWARDED_FOR)
        if forwarded is None or request.peer.told or not self.trusts(address):
            return address
        # The number of hops is bounded, because a client can send any number of them.
        for hop in reversed(forwarded.rsplit(b",", MAX_HOPS)[-MAX_HOPS:]):
            found = _parse_address(hop.strip().decode("latin-1"))
            if found is None:
                return address
            address = str(found)
            if not self.trusts(address):
                return address
        return address


def _parse_address(text: str) -> Address | None:
    """Read an address. An IPv4-mapped IPv6 address becomes the IPv4 address; a zone (`%eth0`) is ignored."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
