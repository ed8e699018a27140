"""Which addresses a webhook may go to: those of the public internet (§12.8).

The rule: an address is refused unless the registries of special addresses leave it to the public. One that carries an
IPv4 address within is judged by that address. The table is ours, so that every version of Python judges alike.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_SPECIAL_V4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by the customers of a carrier"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "the metadata service of a cloud"),  # public by its number, the host itself on Azure
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
        ("2001::/23", "reserved"),  # Teredo, benchmarking, identifiers that are no locations
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
    )
)

_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_ISATAP_MARKS = {0x00005EFE, 0x02005EFE}
_LOW_32_BITS = 0xFFFFFFFF


def parse_address(text: str) -> Address:
    """Read an address as a resolver or a URL writes it; one that is IPv4 in the clothes of IPv6 becomes IPv4."""
    address = ip_address(text)
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def special(address: Address) -> str | None:
    """Say what makes an address other than public; None if nothing does."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_V4 if address in network), None)
    inner = embedded(address)
    if inner is not None and special(inner) is not None:
        return special(inner)
    kind = next((kind for network, kind in _SPECIAL_V6 if address in network), None)
    return kind or (None if address in _PUBLIC_V6 or address in _NAT64 or address.ipv4_mapped else "reserved")


def embedded(address: IPv6Address) -> IPv4Address | None:
    """Give the IPv4 address to which packets for this one go in the end, where it is known to carry one."""
    number = int(address)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _SIX_TO_FOUR:
        return address.sixtofour
    if address in _NAT64 or (number >> 32) & _LOW_32_BITS in _ISATAP_MARKS:
        return IPv4Address(number & _LOW_32_BITS)
    return None
