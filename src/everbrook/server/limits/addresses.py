"""Addresses as keys of limits: all addresses that one client can choose from count as one."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

IPV6_PREFIX_BITS = 64


@lru_cache(maxsize=4096)
def client_of(address: str) -> str:
    """Give the key of the client at an address. The IPv6 network of a customer (a /64) counts as one client.

    An IPv4-mapped IPv6 address is the same client as the IPv4 address.
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
