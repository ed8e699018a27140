"""Paths as a weapon: however a target is spelled, it leads to what was granted, or to nothing.

Alice may do as she likes below `/v1/stream/alice` and in the bucket `alices`. What she sends may name odd streams
there; it must never reach beside them.
"""

from posixpath import normpath

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.attacks.tenants import BUCKET, SECRET, STREAM, Tenants

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")

UPS = [
    b"..",
    b"%2e%2e",
    b"%2E%2e",
    b".%2e",
    b"%2e.",
    b"%252e%252e",
    b"%25252e%25252e",
    b"..;",
    b"..%00",
    b"..%20",
    b"..%09",
    b"%c0%ae%c0%ae",
    b"%e0%80%ae%e0%80%ae",
    b"%u002e%u002e",
    b"%ef%bc%8e%ef%bc%8e",
    b"\xef\xbc\x8e\xef\xbc\x8e",
    b"\xc0\xae\xc0\xae",
    b".",
    b"%2e",
    b"",
]
SLASHES = [b"/", b"%2f", b"%2F", b"%252f", b"//", b"/./", b"\\", b"%5c", b"%c0%af", b"%e0%80%af", b"%ef%bc%8f", b"/%2f"]

TO_BOB = [
    # The other one's own URL, and spellings that decode to it
    b"/v1/stream/bob/secret",
    b"/v1/stream/%62ob/secret",
    b"/v1/stream/%62%6f%62/%73ecret",
    b"/v1/stream/bob%2fsecret",
    b"/v1/stream/bob%2Fsecret",
    b"/v1/stream/%62%6F%62%2F%73%65%63%72%65%74",
    b"/ds/bobs/%73ecret",
    b"/ds/%62obs/secret",
    # Nearly it
    b"/v1/stream/bob/secret/",
    b"/v1/stream/bob/secret%00",
    b"/v1/stream/bob/secret%20",
    b"/v1/stream/bob/secret.",
    b"/v1/stream/bob/secret;alice",
    b"/v1/stream//bob/secret",
    b"//v1/stream/bob/secret",
    b"/v1//stream/bob/secret",
    b"/./v1/stream/bob/secret",
    b"/v1/stream/./bob/secret",
    b"/V1/STREAM/bob/secret",
    b"/v1/stream/BOB/secret",
    b"/v1/stream/bob\\secret",
    b"/v1/%73tream/bob/secret",
    b"/%76%31/stream/bob/secret",
    b"/v1%2fstream%2fbob%2fsecret",
    # Absolute targets, with the host as a disguise
    b"http://localhost/v1/stream/bob/secret",
    b"HTTPS://localhost/v1/stream/bob/secret",
    b"http://v1/stream/alice/secret/../../bob/secret",
    b"http://alice@localhost/v1/stream/bob/secret",
    b"http://localhost/v1/stream/alice/../bob/secret",
    b"http:///v1/stream/bob/secret",
    b"ftp://localhost/v1/stream/bob/secret",
    b"v1/stream/bob/secret",
    b"*",
    # A resource that is open as the way in
    b"/healthz/../v1/stream/bob/secret",
    b"/healthz%2f..%2fv1/stream/bob/secret",
    b"/healthz?/v1/stream/bob/secret",
    b"/ui/../v1/stream/bob/secret",
    b"/ui/%2e%2e/v1/stream/bob/secret",
    b"/ui/..%2fv1%2fstream%2fbob%2fsecret",
    b"/metrics/../v1/stream/bob/secret",
    b"/v1/stream/__ds/jwks.json/../../bob/secret",
    b"/v1/stream/__ds/subscriptions/x/ack/../../../../bob/secret",
    b"/v1/stream/bob/secret/__ds/subscriptions/x/callback",
    b"/v1/stream/bob/secret/__ds/jwks.json",
    # Sub-resources that climb, and the control segment in other spellings
    b"/v1/stream/alice/secret/__ds/../../bob/secret",
    b"/v1/stream/alice/secret/__ds/snapshot/..%2f..%2f..%2fbob%2fsecret",
    b"/v1/stream/alice/secret/__ds/snapshot/0/../../../bob/secret/__ds/snapshot",
    b"/v1/stream/bob/secret/%5f%5fds/snapshot",
    b"/v1/stream/bob/secret/__ds/snapshot",
    b"/v1/stream/bob/secret/__ds/snapshot/0000000000000000",
    b"/v1/stream/bob/secret/__ds/bootstrap",
    b"/v1/stream/alice/__ds/bob/secret",
    b"/v1/stream/alice/__ds/streams",
    b"/v1/stream/alice/secret/__ds/bootstrap/../../../../bob/secret/__ds/bootstrap",
    # From bucket to bucket, and from surface to surface
    b"/ds/alices/../bobs/secret",
    b"/ds/alices/%2e%2e%2fbobs%2fsecret",
    b"/ds/alices%2f..%2fbobs/secret",
    b"/ds/alices%2fbobs/secret",
    b"/ds/alices/secret/../../bobs/secret/snapshot",
    b"/ds/../v1/stream/bob/secret",
    b"/ds/bobs%00/secret",
    b"/ds/BOBS/secret",
    b"/ds/bobs/secret/snapshot",
    b"/ds/bobs/secret/bootstrap",
    # The record of a bucket, of a subscription, of the server's secrets
    b"/v1/stream/../../bucket/bobs",
    b"/bucket/bobs",
    b"/secrets/webhooks",
    b"/ds/../secrets/webhooks",
    b"/v1/stream/..%2f..%2fsecrets%2fwebhooks",
]
CLIMBS = [
    base + slash + up + slash + b"bob" + slash + b"secret"
    for base in (b"/v1/stream/alice", b"/v1/stream/alice/secret" + b"/..")
    for slash in SLASHES
    for up in UPS
]


def _attack(tenants: Tenants, method: str, target: bytes, authorization: str) -> bytes:
    """Ask, and give what came back, if nothing that is not Alice's has changed."""
    before = tenants.names()
    answer = tenants.exchange(method, target, authorization)
    assert tenants.names() == before
    return answer


def _gives_away(answer: bytes) -> bool:
    """Whether something of another's came back. What is Alice's says so."""
    return SECRET.encode() in answer.replace(f"alice: {SECRET}".encode(), b"").replace(
        f"alices: {SECRET}".encode(), b""
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("target", TO_BOB)
def test_no_spelling_leads_to_another_tenant(tenants: Tenants, method: str, target: bytes) -> None:
    for authorization in (tenants.alice, ""):
        assert not _gives_away(_attack(tenants, method, target, authorization))


def test_no_way_of_climbing_leads_out(tenants: Tenants) -> None:
    given_away = [target for target in CLIMBS if _gives_away(_attack(tenants, "GET", target, tenants.alice))]
    assert not given_away


def test_nothing_is_written_by_climbing(tenants: Tenants) -> None:
    """Whatever is created belongs to Alice, even by a name whose dots are resolved."""
    written = set[str]()
    for target in CLIMBS[::3]:
        before = tenants.all_names()
        _attack(tenants, "PUT", target, tenants.alice)
        written |= tenants.all_names().keys() - before.keys()
        _attack(tenants, "DELETE", target, tenants.alice)
    assert written
    assert written == {normpath(name) for name in written}


@pytest.mark.parametrize("target", TO_BOB[:8])
def test_spellings_of_a_path_are_that_path(tenants: Tenants, target: bytes) -> None:
    """The control of this suite: to who may read it, each of these gives the secret away."""
    assert _gives_away(tenants.exchange("GET", target, tenants.root))
    assert tenants.exchange("GET", target, tenants.alice).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("target", [b"/v1/stream/%61lice/secret", b"/v1/stream/alice%2Fsecret", b"/ds/alices/%73ecret"])
def test_ones_own_streams_may_be_spelled_as_one_likes(tenants: Tenants, target: bytes) -> None:
    assert tenants.exchange("GET", target, tenants.alice).startswith(b"HTTP/1.1 200 ")


PIECES = st.sampled_from(
    [
        *UPS,
        *SLASHES,
        b"alice",
        b"bob",
        b"%62ob",
        b"secret",
        b"v1",
        b"stream",
        b"ds",
        b"bobs",
        b"alices",
        b"__ds",
        b"snapshot",
        b"bootstrap",
        b"streams",
        b"__registry__",
        b"?",
        b"#",
        b"http://h",
        b"%",
        b"%2",
        b"\xff",
        b"+",
    ]
)
STARTS = st.sampled_from(
    [b"/v1/stream/alice", b"/v1/stream", b"/ds/alices", b"/ds", b"", b"/ui", b"http://localhost/v1"]
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STARTS, st.lists(PIECES, max_size=10), st.sampled_from(METHODS))
def test_generated_targets_lead_nowhere_else(tenants: Tenants, start: bytes, pieces: list[bytes], method: str) -> None:
    assert not _gives_away(_attack(tenants, method, start + b"".join(pieces), tenants.alice))


@pytest.mark.parametrize("value", ["/v1/stream/alice/../bob/secret", "/v1/stream/bob%2fsecret", "v1/stream/bob/secret"])
@pytest.mark.parametrize("header", ["stream_forked_from", "location", "x_original_url", "x_rewrite_url", "referer"])
def test_no_header_leads_elsewhere(tenants: Tenants, header: str, value: str) -> None:
    answer = tenants.ask("PUT", "/v1/stream/alice/led", authorization=tenants.alice, **{header: value})
    assert answer.status in ({400, 403} if header == "stream_forked_from" else {200, 201})
    assert SECRET.encode() not in tenants.ask("GET", "/v1/stream/alice/led", authorization=tenants.alice).body


@pytest.mark.parametrize("header", ["x_http_method_override", "x_http_method", "x_method_override"])
def test_no_header_is_another_method(tenants: Tenants, header: str) -> None:
    """Root asks, who may delete: anybody else would be refused for another reason."""
    asked = tenants.ask("GET", "/v1/stream/public/secret", authorization=tenants.root, **{header: "DELETE"})
    assert SECRET.encode() in asked.body
    assert tenants.ask("GET", "/v1/stream/public/secret").status == 200


@pytest.mark.parametrize("prefix", ["bob", "../bob", "%2e%2e/bob", "alice/../bob", "%62ob", "bob%00", ""])
@pytest.mark.parametrize("surface", ["/v1/stream/__ds/streams", "/ds/alices/streams", "/ds"])
def test_the_prefix_of_a_listing_leads_nowhere_else(tenants: Tenants, surface: str, prefix: str) -> None:
    hers, all_of_it = (
        tenants.ask("GET", f"{surface}?prefix={prefix}&after=", authorization=each).body
        for each in (tenants.alice, tenants.root)
    )
    assert b'_id":"bob' not in hers
    if surface == "/v1/stream/__ds/streams" and prefix in {"bob", "%62ob", ""}:
        assert b'_id":"bob/secret"' in all_of_it


def test_the_streams_of_bob_are_as_they_were(tenants: Tenants) -> None:
    for stream in (STREAM, f"{BUCKET}/secret"):
        assert SECRET.encode() in tenants.ask("GET", stream, authorization=tenants.bob).body
