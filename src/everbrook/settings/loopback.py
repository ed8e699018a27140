"""The machine itself: which addresses and names lead to nobody else."""

from ipaddress import ip_address
from urllib.parse import urlsplit

_LOCALHOST = "localhost"


def is_loopback(place: str) -> bool:
    """Tell whether an address, or a host with or without a port, is this machine."""
    try:
        host = place if place.count(":") > 1 and "[" not in place else urlsplit(f"//{place}").hostname or ""
        return host == _LOCALHOST or host.endswith(f".{_LOCALHOST}") or ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
