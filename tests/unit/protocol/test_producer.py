"""Idempotent producers: epochs fence zombies, sequences find duplicates and gaps."""

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Claim, Producer
from everbrook.protocol.errors import EpochMustStartAtZero, InvalidHeader, ProtocolError, SequenceGap, StaleEpoch
from everbrook.protocol.producer import MAX_ID_BYTES, accept, is_duplicate, parse_claim, require_current
from tests.kit.generated import generated
from tests.kit.views import NOW

KNOWN = Producer(epoch=5, seq=7, seen_at=NOW)


def claim(epoch: int, seq: int) -> Claim:
    return Claim(b"p", epoch, seq)


def answer(known: Producer | None, sent: Claim) -> tuple[int, Producer | None]:
    """The status that the rules give a claim, and what is known of the producer afterwards."""
    if known and is_duplicate(known, sent):
        return 204, known
    try:
        return 200, accept(known, sent, NOW)
    except ProtocolError as refusal:
        return refusal.status, known


def specified(known: Producer | None, sent: Claim) -> tuple[int, Producer | None]:
    """The validation logic of §5.2.1, line by line. Of an unknown producer, seq 0 is expected in any epoch."""
    accepted = Producer(sent.epoch, sent.seq, NOW)
    if known is None:
        return (200, accepted) if sent.seq == 0 else (409, known)
    if sent.epoch < known.epoch:
        return 403, known
    if sent.epoch > known.epoch:
        return (400, known) if sent.seq != 0 else (200, accepted)
    if sent.seq <= known.seq:
        return 204, known
    return (200, accepted) if sent.seq == known.seq + 1 else (409, known)


@generated
@given(st.lists(st.builds(claim, st.integers(0, 2), st.integers(0, 3)), max_size=15))
def test_a_producer_is_judged_as_specified_whatever_it_sends(claims: list[Claim]) -> None:
    """§5.2.1: validation logic."""
    known = expected = None
    for sent in claims:
        status, known = answer(known, sent)
        wanted, expected = specified(expected, sent)
        assert (status, known) == (wanted, expected)


def test_no_producer_headers_are_no_claim() -> None:
    """§5.2.1."""
    assert parse_claim(None, None, None) is None


def test_three_producer_headers_are_a_claim() -> None:
    """§5.2.1."""
    assert parse_claim(b"order-service-1", b"3", b"4") == Claim(b"order-service-1", 3, 4)


@pytest.mark.parametrize("present", [0b001, 0b010, 0b011, 0b100, 0b101, 0b110])
def test_some_of_the_three_headers_are_refused(present: int) -> None:
    """§5.2.1: all or none."""
    headers = [value if present & bit else None for bit, value in ((1, b"p"), (2, b"0"), (4, b"0"))]

    with pytest.raises(InvalidHeader, match="must be sent together"):
        parse_claim(*headers)


@pytest.mark.parametrize("headers", [(b"", None, None), (None, b"", None), (None, None, b"")])
def test_an_empty_header_is_a_header(headers: tuple[bytes | None, bytes | None, bytes | None]) -> None:
    """§5.2.1: absent and empty differ."""
    with pytest.raises(InvalidHeader):
        parse_claim(*headers)


def test_an_empty_producer_id_is_refused() -> None:
    """§5.2.1."""
    with pytest.raises(InvalidHeader, match="Producer-Id must not be empty"):
        parse_claim(b"", b"0", b"0")


def test_a_producer_id_is_bounded() -> None:
    """Gap G-23."""
    longest = b"p" * MAX_ID_BYTES

    assert parse_claim(longest, b"0", b"0") == Claim(longest, 0, 0)
    with pytest.raises(InvalidHeader, match="at most 256 bytes, got 257"):
        parse_claim(longest + b"p", b"0", b"0")


@pytest.mark.parametrize("text", [b"0", b"1", b"9007199254740991"])
def test_epoch_and_seq_are_integers_that_javascript_can_hold(text: bytes) -> None:
    """§5.2.1: at most 2^53-1."""
    assert parse_claim(b"p", text, text) == claim(int(text), int(text))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-1",
        b"+1",
        b"1abc",
        b"0xyz",
        b"1e3",
        b"1.0",
        b" 1",
        b"1\n",
        b"1_0",
        b"\xb2",
        b"9007199254740992",
        b"9" * 17,
        b"9" * 5000,
    ],
)
def test_another_number_is_refused_in_either_header(text: bytes) -> None:
    """§5.2.1: 400 for non-integer values."""
    with pytest.raises(InvalidHeader, match=r"^Producer-Epoch must be an integer from 0 to 2\^53-1"):
        parse_claim(b"p", text, b"0")
    with pytest.raises(InvalidHeader, match=r"^Producer-Seq must be an integer from 0 to 2\^53-1"):
        parse_claim(b"p", b"0", text)


def test_a_gap_says_what_was_expected_and_what_came() -> None:
    """§5.2.1: 409 with both sequences."""
    with pytest.raises(SequenceGap) as refused:
        accept(KNOWN, claim(5, 9), NOW)

    assert refused.value.headers == ((b"Producer-Expected-Seq", b"8"), (b"Producer-Received-Seq", b"9"))


def test_an_unknown_producer_that_begins_in_the_middle_left_a_gap() -> None:
    """§5.2.1: a sequence starts at 0."""
    with pytest.raises(SequenceGap) as refused:
        accept(None, claim(3, 2), NOW)

    assert refused.value.headers == ((b"Producer-Expected-Seq", b"0"), (b"Producer-Received-Seq", b"2"))


@pytest.mark.parametrize("seq", [0, 7, 8, 9])
def test_a_zombie_learns_the_current_epoch(seq: int) -> None:
    """§5.2.1: 403 with `Producer-Epoch`."""
    with pytest.raises(StaleEpoch) as refused:
        require_current(KNOWN, claim(4, seq))

    assert refused.value.headers == ((b"Producer-Epoch", b"5"),)


@pytest.mark.parametrize("seq", [1, 8])
def test_a_new_epoch_starts_at_zero(seq: int) -> None:
    """§5.2.1: 400."""
    with pytest.raises(EpochMustStartAtZero, match=f"epoch 6 is new and must start at seq 0, got {seq}"):
        accept(KNOWN, claim(6, seq), NOW)


def test_what_is_accepted_is_remembered_with_its_time() -> None:
    assert accept(KNOWN, claim(5, 8), NOW + 1) == Producer(5, 8, NOW + 1)
