"""Redaction: credentials that went astray are not logged, however they are spelt."""

import pytest

from everbrook.server.auth.api_keys import make_key
from everbrook.server.exchange import Request
from everbrook.server.observe.access_log import loggable_target, request_id

KEY = make_key("admin:/", 0)[0]
SIGNATURE = "jv0cB5mEXWJ6Gf2aGkP7r9yq3n1L4t8sZxHdUoQwKbA"


@pytest.mark.parametrize(
    "spelt",
    [KEY, KEY.replace("eb_", "%65b_"), KEY.replace("_", "%5F")],
    ids=["plain", "escaped letter", "escaped dashes"],
)
def test_a_key_in_a_path_is_not_logged(spelt: str) -> None:
    assert KEY[-20:] not in loggable_target(f"/v1/stream/{spelt}".encode(), b"")


def test_a_key_is_no_request_id() -> None:
    request = Request(b"GET", b"/", b"", {b"x-request-id": KEY.encode()}, b"")
    assert KEY not in request_id(request)


def test_a_signature_in_the_wrong_parameter_is_not_logged() -> None:
    assert SIGNATURE not in loggable_target(b"/v1/stream/a", f"offset={SIGNATURE}".encode())


def test_what_is_plain_is_logged_as_it_was_sent() -> None:
    query = b"offset=0000000000000042&live=sse&prefix=" + b"a%20b/" * 20
    assert loggable_target(b"/v1/stream/a%20b", query) == f"/v1/stream/a%20b?{query.decode()}"
