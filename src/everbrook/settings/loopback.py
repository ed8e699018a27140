"""The machine itself: which addresses and names lead to nobody else.

The rule: what is not understood to the last character leads elsewhere.
"""

import re
from ipaddress import IPv6Address, ip_address

LOCALHOST = "localhost"

_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::\d{1,5})?")


def is_loopback(host: str) -> bool:
    """Tell whether an address, or the one name that stands for it, is this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() == LOCALHOST
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def host_of(place: str) -> str:
    """Give the host of what may have a port, or nothing where it is no such place."""
    found = _PLACE.fullmatch(place)
    return (found[1] or found[2]) if found else ""
