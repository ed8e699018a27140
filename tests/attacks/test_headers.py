"""Headers as a weapon: nobody becomes another by sending a header twice, oddly, or where another reader sees it not.

A proxy and the server must agree on where a request ends and who it is of. What two could read differently is refused.
"""

import socket
from collections.abc import Iterator

import pytest

from tests.attacks.tenants import SECRET, Tenants, sharing
from tests.kit.wire import chunked, render

TARGET = "/v1/stream/bob/secret"
SCOPES = "read+append+create+delete:/v1/stream/{sub}"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """A server whose only proxy is on this machine: everybody here is that proxy."""
    folder = tmp_path_factory.mktemp("keys")
    with sharing(folder, auth__trusted_proxies="127.0.0.1", auth__default_scopes=SCOPES) as shared:
        yield shared


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """A server whose proxy is elsewhere: everybody here is a stranger."""
    folder = tmp_path_factory.mktemp("keys")
    with sharing(folder, auth__trusted_proxies="10.0.0.0/8,fd00::/8", auth__default_scopes=SCOPES) as shared:
        yield shared


def _get(*lines: str, target: str = TARGET) -> bytes:
    """A request with header lines as they are given."""
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *lines, "", ""]).encode()


def _statuses(answers: bytes) -> list[int]:
    """The status of every answer that came, in order."""
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


# Credentials


def test_a_request_has_one_credential(tenants: Tenants) -> None:
    answer = tenants.raw(_get(f"Authorization: {tenants.alice}", f"Authorization: {tenants.root}"))
    assert _statuses(answer) == [401]
    answer = tenants.raw(_get(f"Authorization: {tenants.root}", f"Authorization: {tenants.alice}"))
    assert _statuses(answer) == [401]


def test_not_even_the_same_one_twice(tenants: Tenants) -> None:
    assert _statuses(tenants.raw(_get(*[f"Authorization: {tenants.bob}"] * 2))) == [401]


@pytest.mark.parametrize(
    "line", ["Authorization : {}", "Authorization\t: {}", " Authorization: {}", "Authorization\0: {}"]
)
def test_a_header_name_has_no_blanks(tenants: Tenants, line: str) -> None:
    assert _statuses(tenants.raw(_get(line.format(tenants.bob)))) == [400]


@pytest.mark.parametrize("name", ["X-Authorization", "Authorization_", "Proxy-Authorization", "Http-Authorization"])
def test_no_other_header_is_a_credential(tenants: Tenants, name: str) -> None:
    assert _statuses(tenants.raw(_get(f"{name}: {tenants.bob}"))) == [401]


@pytest.mark.parametrize("name", ["AUTHORIZATION", "authorization", "aUtHoRiZaTiOn"])
def test_the_case_of_a_header_name_means_nothing(tenants: Tenants, name: str) -> None:
    assert _statuses(tenants.raw(_get(f"{name}: {tenants.bob}"))) == [200]


def test_a_folded_credential_is_none(tenants: Tenants) -> None:
    scheme, key = tenants.bob.split(" ")
    assert _statuses(tenants.raw(_get(f"Authorization: {scheme}", f" {key}")))[0] in {400, 401}
    assert SECRET.encode() not in tenants.raw(_get("X-Note: a", f" Authorization: {tenants.bob}"))


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic {key}", "{key}", "Bearer {key} x", "Bearer  {key},"])
def test_a_credential_of_another_form_is_refused(tenants: Tenants, value: str) -> None:
    key = tenants.bob.split(" ")[1]
    assert _statuses(tenants.raw(_get(f"Authorization: {value.format(key=key)}"))) == [401]


def test_a_credential_in_the_query_is_none(tenants: Tenants) -> None:
    key = tenants.bob.split(" ")[1]
    for query in (f"access_token={key}", f"authorization={key}", f"token={key}"):
        assert _statuses(tenants.raw(_get(target=f"{TARGET}?{query}"))) == [401]


def test_a_credential_behind_a_body_comes_too_late(tenants: Tenants) -> None:
    head = render("POST", TARGET, content_type="text/plain", transfer_encoding="chunked", connection="close")
    trailers = f"Authorization: {tenants.bob}\r\n".encode()
    assert _statuses(tenants.raw(head + chunked(b"x", trailers=trailers)))[0] in {400, 401}


@pytest.mark.parametrize("end", ["\n", "\r", "\n\n", "\r\r\n"])
def test_a_line_ends_as_lines_end(tenants: Tenants, end: str) -> None:
    """Whoever takes a bare line end for one sees a credential here that others do not."""
    request = _get(f"X-Note: a{end}Authorization: {tenants.bob}{end}X-More: b")
    assert SECRET.encode() not in tenants.raw(request)


# The identity of a proxy


def test_the_proxy_says_who_asks(behind: Tenants) -> None:
    assert _statuses(behind.raw(_get("X-JWT-Sub: bob"))) == [200]
    assert _statuses(behind.raw(_get("X-JWT-Sub: alice"))) == [403]


def test_from_a_stranger_it_means_nothing(beside: Tenants) -> None:
    assert _statuses(beside.raw(_get("X-JWT-Sub: bob"))) == [401]


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "True-Client-IP", "Client-IP"])
def test_nobody_becomes_the_proxy_by_saying_so(beside: Tenants, name: str) -> None:
    for address in ("10.0.0.1", "for=10.0.0.1", "127.0.0.1, 10.0.0.1"):
        assert _statuses(beside.raw(_get(f"{name}: {address}", "X-JWT-Sub: bob"))) == [401]


@pytest.mark.parametrize("lines", [("X-JWT-Sub: alice", "X-JWT-Sub: bob"), ("x-jwt-sub: bob", "X-JWT-Sub: bob")])
def test_an_identity_is_given_once(behind: Tenants, lines: tuple[str, ...]) -> None:
    """The proxy sets the header; one more came from outside."""
    assert _statuses(behind.raw(_get(*lines))) == [401]


@pytest.mark.parametrize("name", ["X_JWT_Sub", "X-JWT_Sub", "X-JWT-Sub2", "XX-JWT-Sub", "X-JWT-Sub-"])
def test_a_header_that_looks_like_it_is_another(behind: Tenants, name: str) -> None:
    assert _statuses(behind.raw(_get(f"{name}: bob"))) == [401]


@pytest.mark.parametrize("line", ["X-JWT-Sub : bob", "X-JWT-Sub\t: bob", " X-JWT-Sub: bob", "X-JWT-Sub\x0b: bob"])
def test_a_spelling_that_a_proxy_would_not_strip_is_refused(behind: Tenants, line: str) -> None:
    assert SECRET.encode() not in behind.raw(_get(line))


@pytest.mark.parametrize(
    "subject", ["../bob", "bob/secret", "bob%2fsecret", "alice/../bob", ".", "bob\t", "b%6fb", "BOB"]
)
def test_a_subject_is_one_segment_as_it_is(behind: Tenants, subject: str) -> None:
    answer = behind.raw(_get(f"X-JWT-Sub: {subject}"))
    assert _statuses(answer) == [200 if subject.strip() == "bob" else 403]


def test_a_wrong_credential_is_not_passed_over_for_the_proxys_word(behind: Tenants) -> None:
    assert _statuses(behind.raw(_get("Authorization: Bearer eb_wrong", "X-JWT-Sub: bob"))) == [401]


def test_a_credential_comes_before_the_proxys_word(behind: Tenants) -> None:
    assert _statuses(behind.raw(_get(f"Authorization: {behind.alice}", "X-JWT-Sub: bob"))) == [403]


def test_a_header_named_in_connection_stays(behind: Tenants) -> None:
    """To drop it would make a known one unknown, or leave another's in its place."""
    lines = [
        "GET /v1/stream/bob/secret HTTP/1.1",
        "Host: h",
        "Connection: close, X-JWT-Sub",
        "X-JWT-Sub: alice",
        "",
        "",
    ]
    assert _statuses(behind.raw("\r\n".join(lines).encode())) == [403]


def test_an_offer_to_upgrade_changes_nobody(behind: Tenants) -> None:
    """The head is read again without the offer: it must say the same the second time."""
    upgrade = ["Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"]
    lines = [f"GET {TARGET} HTTP/1.1", "Host: h", "Connection: Upgrade, HTTP2-Settings, close", *upgrade]
    twice = ["X-JWT-Sub: alice", "X-JWT-Sub: bob"]
    assert _statuses(behind.raw("\r\n".join([*lines, "X-JWT-Sub: alice", "", ""]).encode()))[0] == 403
    assert _statuses(behind.raw("\r\n".join([*lines, *twice, "", ""]).encode()))[0] == 401


# Where a request ends

INNER = f"DELETE {TARGET} HTTP/1.1\r\nHost: localhost\r\nX-JWT-Sub: bob\r\n\r\n".encode()


def _post(*lines: str, body: bytes = b"") -> bytes:
    head = ["POST /v1/stream/alice/x HTTP/1.1", "Host: localhost", "X-JWT-Sub: alice", "Content-Type: text/plain"]
    return "\r\n".join([*head, *lines, "", ""]).encode() + body


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 0"),
        ("Content-Length: 5, 5",),
        ("Content-Length: +5",),
        ("Content-Length: -1",),
        ("Content-Length: 0x5",),
        ("Content-Length: 5 5",),
        ("Content-Length: 5a",),
        ("Content-Length:",),
        ("Content-Length: 99999999999999999999999",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity, chunked",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding: \x0bchunked",),
        ("Transfer-Encoding : chunked",),
        ("Transfer-Encoding\t: chunked",),
        ("Transfer-Encoding: chunked;q=1",),
        ("Transfer-Encoding:", " chunked"),
        ("Content-Length : 5",),
    ],
)
def test_where_two_could_see_different_ends_nothing_is_done(behind: Tenants, lines: tuple[str, ...]) -> None:
    """What follows might be a body to one and a request to the other: the connection ends instead."""
    before = behind.names()
    answers = behind.raw(_post(*lines, body=b"0\r\n\r\n" + INNER))
    assert _statuses(answers) == [400]
    assert behind.names() == before


@pytest.mark.parametrize(
    "body",
    [
        b"5\r\nhello\r\n0\r\n\r\n"[:-2] + b"X: y\nZ: w\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"-1\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhelloX\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
        b"\r\n5\r\nhello\r\n0\r\n\r\n",
        b";\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_a_body_in_odd_chunks_is_no_way_to_hide_a_request(behind: Tenants, body: bytes) -> None:
    before = behind.names()
    answers = behind.raw(_post("Transfer-Encoding: chunked", body=body + INNER))
    assert _statuses(answers) == [400]
    assert behind.names() == before


def test_a_request_behind_a_whole_body_is_one(behind: Tenants) -> None:
    """The control of the two tests above: the inner request is executed where it is a request of its own."""
    behind.ask("PUT", f"{TARGET}-2", authorization=behind.root)
    inner = INNER.replace(TARGET.encode(), f"{TARGET}-2".encode())
    answers = behind.raw(_post("Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n" + inner))
    assert _statuses(answers) == [404, 204]


def test_a_body_that_looks_like_a_request_is_a_body(behind: Tenants) -> None:
    before = behind.names()
    answers = behind.raw(_post(f"Content-Length: {len(INNER)}", body=INNER))
    assert _statuses(answers) == [404]
    assert behind.names() == before


def test_requests_behind_each_other_have_each_their_own_identity(behind: Tenants) -> None:
    """A connection of a proxy carries the requests of many."""
    of_bob = _get("X-JWT-Sub: bob").replace(b"Connection: close\r\n", b"")
    of_nobody = _get().replace(b"Connection: close\r\n", b"")
    of_alice = _get("X-JWT-Sub: alice")
    assert _statuses(behind.raw(of_bob + of_nobody + of_bob + of_alice)) == [200, 401, 200, 403]


def test_what_came_before_a_refusal_is_not_taken_up_again(behind: Tenants) -> None:
    with socket.create_connection(behind.server.address, timeout=10) as connection:
        connection.sendall(_get("X-JWT-Sub: bob").replace(b"\r\n\r\n", b"\r\nBad Header: x\r\n\r\n"))
        connection.sendall(_get("X-JWT-Sub: bob"))
        connection.shutdown(socket.SHUT_WR)
        answers = b"".join(iter(lambda: connection.recv(65536), b""))
    assert _statuses(answers) == [400]


def test_a_host_is_given_once_and_is_of_no_account_for_rights(tenants: Tenants) -> None:
    assert _statuses(tenants.raw(_get("Host: other"))) == [400]
    absolute = _get(f"Authorization: {tenants.alice}", target=f"http://bob{TARGET}")
    assert _statuses(tenants.raw(absolute)) == [403]
