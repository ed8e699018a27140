"""The loopback: which addresses and names lead to this machine.

A text that is not understood to its last character counts as another machine: several checks of security rely on this.
"""

import re
from ipaddress import IPv6Address, ip_address

LOCALHOST = "localhost"

_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::\d{1,5})?")


def is_loopback(host: str) -> bool:
    """Tell whether an address or the name `localhost` is this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() == LOCALHOST
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def host_of(place: str) -> str:
    """Return the host of a text that may have a port, or an empty text if it is malformed."""
    found = _PLACE.fullmatch(place)
    return (found[1] or found[2]) if found else ""
