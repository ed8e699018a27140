"""Addresses as limits see them: those that one client has at will count as one."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

IPV6_PREFIX_BITS = 64


@lru_cache(maxsize=4096)
def client_of(address: str) -> str:
    """Give what stands for the client at an address. An IPv6 network of a customer (a /64) counts as one.

    An IPv4 address that is written as an IPv6 one is the same client.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, IPV6_PREFIX_BITS), strict=False))
