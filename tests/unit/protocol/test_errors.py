"""Refusals know their status, code and headers."""

from collections.abc import Iterator
from http import HTTPStatus

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import errors
from everbrook.protocol.errors import (
    AlreadyClaimed,
    BadRequest,
    Conflict,
    HeadersTooLarge,
    MethodNotAllowed,
    MethodNotImplemented,
    NotFound,
    OffsetGone,
    Overloaded,
    PayloadTooLarge,
    PreconditionFailed,
    ProtocolError,
    RequestTimeout,
    StaleEpoch,
    StreamClosed,
    StreamDamaged,
    StreamGone,
    TokenGone,
    TokenInvalid,
    TooManyProducers,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedCoding,
    VersionNotSupported,
    quoted,
)
from tests.kit.generated import generated


def kinds(root: type[ProtocolError]) -> Iterator[type[ProtocolError]]:
    """Give the kinds. A subclass without a code of its own says more of the same kind."""
    for kind in root.__subclasses__():
        if "code" in vars(kind):
            yield kind
        yield from kinds(kind)


ALL = sorted(kinds(ProtocolError), key=lambda kind: kind.__name__)


def test_a_subclass_without_a_code_of_its_own_does_not_take_the_place_of_its_kind() -> None:
    class DamagedAt(StreamDamaged):
        """Says more of the same kind."""

    assert ProtocolError.by_code[DamagedAt.code] is StreamDamaged


def test_no_two_kinds_share_a_code() -> None:
    codes = [kind.code for kind in ALL]

    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", ALL)
def test_a_kind_is_found_again_by_its_code(kind: type[ProtocolError]) -> None:
    assert ProtocolError.by_code[kind.code] is kind


@pytest.mark.parametrize("kind", ALL)
def test_a_kind_refuses_with_a_status_that_http_knows_as_an_error(kind: type[ProtocolError]) -> None:
    assert HTTPStatus(kind.status) >= HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("kind", ALL)
def test_the_tree_that_opens_the_module_names_every_kind(kind: type[ProtocolError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    "kind, status",
    [
        (BadRequest, 400),
        (Unauthorized, 401),
        (StaleEpoch, 403),
        (NotFound, 404),
        (MethodNotAllowed, 405),
        (RequestTimeout, 408),
        (Conflict, 409),
        (StreamGone, 410),
        (OffsetGone, 410),
        (TokenGone, 410),
        (PreconditionFailed, 412),
        (PayloadTooLarge, 413),
        (UnsupportedCoding, 415),
        (TooManyRequests, 429),
        (TooManyProducers, 429),
        (HeadersTooLarge, 431),
        (StreamDamaged, 500),
        (MethodNotImplemented, 501),
        (Unavailable, 503),
        (VersionNotSupported, 505),
    ],
)
def test_a_family_of_refusals_shares_its_status(kind: type[ProtocolError], status: int) -> None:
    """§5: response codes."""
    assert {member.status for member in (kind, *kinds(kind))} == {status}


def test_a_refusal_carries_its_detail_and_its_headers() -> None:
    refusal = StreamClosed("closed", ((b"Stream-Closed", b"true"),))

    assert (str(refusal), refusal.detail, refusal.headers) == ("closed", "closed", ((b"Stream-Closed", b"true"),))


def test_a_refused_claim_tells_who_holds_the_lease() -> None:
    """§7.2: `ALREADY_CLAIMED` with `current_holder` and `generation`."""
    refusal = AlreadyClaimed("claimed", holder="w1", generation=7)

    assert (refusal.status, refusal.code, refusal.holder, refusal.generation) == (409, "ALREADY_CLAIMED", "w1", 7)


def test_whoever_shows_no_valid_token_is_told_which_kind_is_needed() -> None:
    """RFC 9110 §11.6.1: a 401 names a challenge."""
    assert TokenInvalid("no", ((b"X", b"y"),)).headers == ((b"X", b"y"), (b"WWW-Authenticate", b"Bearer"))


def test_a_refusal_without_headers_has_none() -> None:
    assert BadRequest("no").headers == ()


@pytest.mark.parametrize("kind", [TooManyProducers, Unavailable, Overloaded])
def test_an_overloaded_server_says_when_to_come_back(kind: type[ProtocolError]) -> None:
    """Better than the reference: overload answers 429 or 503 with `Retry-After`, beside what else there is to say."""
    headers = kind("later", ((b"X", b"y"),)).headers

    assert headers == ((b"X", b"y"), (b"Retry-After", b"%d" % (kind.retry_after_secs or 0)))


def test_whoever_asks_too_often_is_told_how_long_to_wait() -> None:
    """RFC 6585 §4."""
    headers = TooManyRequests("slower", ((b"X", b"y"),), wait_secs=7).headers

    assert headers == ((b"X", b"y"), (b"Retry-After", b"7"))


def test_nobody_is_told_how_long_to_wait_where_that_is_not_known() -> None:
    assert TooManyRequests("too many open").headers == ()


@generated
@given(st.binary(max_size=200))
def test_whatever_a_client_sent_is_shown_on_one_line_and_bounded(text: bytes) -> None:
    shown = quoted(text)

    assert shown.isprintable()
    assert len(shown) < 700


def test_a_client_sees_its_text_as_it_sent_it() -> None:
    assert quoted("é\n".encode()) == r"'é\n'"


@pytest.mark.parametrize("length, end", [(64, "x'"), (65, "x…'")])
def test_long_text_is_cut_with_a_mark(length: int, end: str) -> None:
    assert quoted(b"x" * length) == "'" + "x" * 63 + end
