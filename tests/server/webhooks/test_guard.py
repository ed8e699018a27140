"""The guard: which URLs pass, and which addresses a name may have (§6.2, §12.8)."""

import socket
from ipaddress import IPv4Address
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import example, given, strategies as st

from everbrook.protocol.errors import WebhookUrlRejected
from everbrook.server.webhooks.guard import (
    MAX_ADDRESSES,
    MAX_URL_BYTES,
    Target,
    check_url,
    resolve,
    special,
)
from tests.kit.generated import generated
from tests.server.webhooks.receivers import NAME, OTHER_PUBLIC, PUBLIC, Names, run

PASSING = [
    ("https://worker.example", "https://worker.example/"),
    ("https://worker.example/", "https://worker.example/"),
    ("https://worker.example:443/hooks", "https://worker.example/hooks"),
    ("https://worker.example:8443/hooks?a=1&b[]=2", "https://worker.example:8443/hooks?a=1&b[]=2"),
    ("https://worker.example?a=1", "https://worker.example/?a=1"),
    ("HTTPS://Worker.EXAMPLE/Hooks", "https://worker.example/Hooks"),
    ("https://xn--bcher-kva.example/%20x", "https://xn--bcher-kva.example/%20x"),
    ("https://a_b.my-worker.example/", "https://a_b.my-worker.example/"),
    ("https://worker.example/a@b:c", "https://worker.example/a@b:c"),
    ("https://93.184.215.14/", "https://93.184.215.14/"),
    ("https://[2606:4700:4700:0::1111]:8443/", "https://[2606:4700:4700::1111]:8443/"),
    ("https://[::ffff:93.184.215.14]/", "https://93.184.215.14/"),
]

LOCAL = [
    ("http://localhost/", "http://localhost/"),
    ("http://LOCALHOST:3000/hook", "http://localhost:3000/hook"),
    ("http://127.0.0.1:80/", "http://127.0.0.1/"),
    ("http://127.8.9.10:3000/", "http://127.8.9.10:3000/"),
    ("http://[::1]:3000/", "http://[::1]:3000/"),
    ("http://[::ffff:127.0.0.1]:3000/", "http://127.0.0.1:3000/"),
]

NOT_PUBLIC = [
    "10.0.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "192.168.0.1",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 - it is to be refused
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:7f00:1]",
    "[::10.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "localhost",
]

OTHER_NOTATIONS = [
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "017700000001",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "127.0.0.01",
    "127.0.0.1.",
    "127.0.0.0x1",
    "127.0.0.256",
    "1.2.3.4.5",
    "0x",
    "0",
    "worker.example.1",
]

MALFORMED = [
    "",
    "worker.example/hooks",
    "//worker.example/",
    "https:/worker.example/",
    "https:worker.example",
    "https://",
    "https:///hooks",
    "https://?a",
    "https://:443/",
    "https://worker.example:/",
    "https://worker.example:0/",
    "https://worker.example:0443/",
    "https://worker.example:65536/",
    "https://worker.example:4４3/",  # noqa: RUF001 - a digit that is none
    "https://worker.example:443:443/",
    "https://worker.example:-1/",
    "https://worker.example./",
    "https://.worker.example/",
    "https://worker..example/",
    "https://./",
    "https://-worker.example/",
    "https://worker-.example/",
    "https://worker/",
    f"https://{'a' * 64}.example/",
    f"https://{'a.' * 130}example/",
    "https://user@worker.example/",
    "https://user:secret@worker.example/",
    "https://worker.example@127.0.0.1/",
    "https://worker.example:443@127.0.0.1/",
    "https://worker.example%40127.0.0.1/",
    "https://%31%32%37.0.0.1/",
    "https://worker.example/#fragment",
    "https://worker.example#@127.0.0.1/",
    "https://worker.example\\@127.0.0.1/",
    "https:\\\\worker.example/",
    "https://worker.example/a\\b",
    " https://worker.example/",
    "https://worker.example/ ",
    "https://worker.example/\n",
    "https://wor\tker.example/",
    "https://worker.example\r\nHost: other/",
    "https://worker.example/\x00",
    "https://worker.example/\x7f",
    "https://bücher.example/",
    "https://１２７.0.0.1/",  # noqa: RUF001 - digits that some parsers take for digits
    "https://127。0。0。1/",
    "https://worker.example/ä",
    "https://worker.example/\ud800",
    "https://[::1/",
    "https://::1/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[v1.fe]/",
    "https://[1.2.3.4]/",
    "https://[::1]x/",
    "https://[]/",
    "ftp://worker.example/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "gopher://127.0.0.1:6379/_x",
    "https+unix://worker.example/",
    "https://worker.example/" + "a" * MAX_URL_BYTES,
]


def refusal(url: str, *, allow_loopback_http: bool = True) -> str:
    with pytest.raises(WebhookUrlRejected) as caught:
        check_url(url, allow_loopback_http=allow_loopback_http)
    return caught.value.detail


def resolved(target: Target, names: Names) -> list[str]:
    return [str(address) for address in run(resolve(target, names))]


def public(name: str = NAME) -> Target:
    return check_url(f"https://{name}/", allow_loopback_http=False)


@pytest.mark.parametrize("url, spelled", PASSING)
def test_an_https_url_passes_in_one_spelling(url: str, spelled: str) -> None:
    target = check_url(url, allow_loopback_http=False)
    assert target.url == spelled
    assert check_url(spelled, allow_loopback_http=False) == target


@pytest.mark.parametrize("url, spelled", LOCAL)
def test_http_passes_to_this_machine_where_that_is_allowed(url: str, spelled: str) -> None:
    """§6.2: the exception for development."""
    assert check_url(url, allow_loopback_http=True).url == spelled


@pytest.mark.parametrize("url, spelled", LOCAL)
def test_http_to_this_machine_is_refused_otherwise(url: str, spelled: str) -> None:
    assert "must begin with https://" in refusal(url, allow_loopback_http=False)


@pytest.mark.parametrize(
    "host", ["worker.example", "93.184.215.14", "10.0.0.1", "localhost.example", "a.localhost", "[::2]", "0.0.0.1"]
)
def test_http_to_anything_else_is_refused(host: str) -> None:
    assert "may be http only to localhost, 127.0.0.0/8 or [::1]" in refusal(f"http://{host}/")


@pytest.mark.parametrize("host", NOT_PUBLIC)
def test_https_to_an_address_that_is_not_public_is_refused(host: str) -> None:
    """§12.8; the exception for development is for http alone."""
    refusal(f"https://{host}/", allow_loopback_http=True)
    refusal(f"https://{host}:8443/x?y", allow_loopback_http=False)


@pytest.mark.parametrize("host", OTHER_NOTATIONS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_ipv4_address_in_another_notation_is_refused(scheme: str, host: str) -> None:
    assert "four decimal numbers" in refusal(f"{scheme}://{host}/")


@pytest.mark.parametrize("url", MALFORMED)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    refusal(url)
    refusal(url.replace("https:", "http:"))


def test_a_refusal_is_a_bad_request_with_the_code_of_the_protocol() -> None:
    assert (WebhookUrlRejected.status, WebhookUrlRejected.code) == (400, "WEBHOOK_URL_REJECTED")


def test_credentials_are_not_repeated_in_the_refusal() -> None:
    assert "secret" not in refusal("https://user:secret@worker.example/")


@generated
@given(st.from_regex(r"https?://[\x20-\x7e]{0,30}(/[\x20-\x7e]{0,10})?", fullmatch=True) | st.text())
def test_what_passes_is_public_or_allowed_whatever_is_tried(url: str) -> None:
    try:
        target = check_url(url, allow_loopback_http=True)
    except WebhookUrlRejected:
        return
    assert target.local == (target.host == "localhost" or (target.address is not None and target.address.is_loopback))
    assert target.local or target.address is None or special(target.address) is None


@generated
@given(st.from_regex(r"https://[a-z0-9.@:%\[\]_-]{1,12}\.example[:@/?a-z0-9.]{0,12}", fullmatch=True))
@example("https://worker.example:8443/a?b")
def test_what_passes_has_the_host_that_other_parsers_see(url: str) -> None:
    try:
        target = check_url(url, allow_loopback_http=True)
    except WebhookUrlRejected:
        return
    assert (urlsplit(url).hostname, urlsplit(url).port or 443) == (target.host, target.port)
    assert (httpx2.URL(url).host, httpx2.URL(url).port or 443) == (target.host, target.port)


@generated
@given(st.integers(0, 2**32 - 1), st.sampled_from(["{:d}", "0x{:x}", "0{:o}"]))
def test_no_single_number_passes_for_a_host(number: int, notation: str) -> None:
    refusal(f"https://{notation.format(number)}/")


def test_a_name_with_public_addresses_resolves_to_them_once_each() -> None:
    names = Names([PUBLIC, OTHER_PUBLIC, PUBLIC, f"::ffff:{PUBLIC}"])
    assert resolved(public(), names) == [PUBLIC, OTHER_PUBLIC]
    assert names.asked == [f"{NAME}:443"]


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - it is to be refused
        "::1",
        "::ffff:192.168.0.1",
        "64:ff9b::a9fe:a9fe",
        "fe80::1%eth0",
        "fd00:ec2::254",
    ],
)
def test_a_name_with_any_address_that_is_not_public_is_refused(address: str) -> None:
    """§12.8: one among several is enough, wherever it stands; which one it is stays untold."""
    for answer in ([address], [address, PUBLIC], [PUBLIC, address], [PUBLIC] * MAX_ADDRESSES + [address]):
        with pytest.raises(WebhookUrlRejected, match=f"{NAME} has one that is") as caught:
            resolved(public(), Names(answer))
        assert address not in caught.value.detail


def test_a_name_that_leads_to_this_machine_is_refused_though_http_to_it_is_allowed() -> None:
    target = check_url("https://localtest.example/", allow_loopback_http=True)
    with pytest.raises(WebhookUrlRejected):
        resolved(target, Names(["127.0.0.1"]))


def test_localhost_is_never_looked_up() -> None:
    names = Names([PUBLIC])
    assert resolved(check_url("http://localhost/", allow_loopback_http=True), names) == ["127.0.0.1", "::1"]
    assert names.asked == []


def test_an_address_is_never_looked_up() -> None:
    names = Names(["10.0.0.1"])
    assert resolved(check_url(f"https://{PUBLIC}/", allow_loopback_http=False), names) == [PUBLIC]
    assert names.asked == []


def test_of_very_many_addresses_the_first_few_are_used() -> None:
    many = [str(IPv4Address(number)) for number in range(int(IPv4Address(PUBLIC)), int(IPv4Address(PUBLIC)) + 100)]
    assert resolved(public(), Names(many)) == many[:MAX_ADDRESSES]


def test_a_name_without_an_address_is_a_failure_and_no_refusal() -> None:
    with pytest.raises(OSError, match="has no address"):
        resolved(public(), Names([]))
    with pytest.raises(socket.gaierror):
        resolved(public(), Names(socket.gaierror(socket.EAI_AGAIN, "try again")))
