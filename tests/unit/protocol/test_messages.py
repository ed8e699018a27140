"""Messages: a body becomes stored bytes with boundaries, and a body again."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.messages import pack, unpack, unpack_part, unpacked_bytes
from everbrook.protocol.state import Identity
from tests.kit.generated import generated
from tests.kit.views import BYTES, JSON, head_of

OCTETS = head_of(BYTES).identity
MESSAGES = head_of(JSON).identity

values = st.lists(st.sampled_from([b"1", b'"a,b"', b"[2,3]", b'{"k":[]}', b"null"]), min_size=1, max_size=6)


@generated
@given(st.binary(min_size=1), st.integers(0, 10**15))
def test_a_body_of_bytes_is_one_message_kept_as_it_is(body: bytes, tail: int) -> None:
    """§9."""
    assert pack(OCTETS, body, tail) == (body, (tail + len(body),))
    assert unpack(OCTETS, body) == body


def test_no_body_is_no_message() -> None:
    """§5.3: a close without data."""
    assert pack(OCTETS, b"", 7) == pack(MESSAGES, b"", 7) == (b"", ())


def test_an_empty_array_is_no_message() -> None:
    """§9.1.3."""
    assert pack(MESSAGES, b" [] ", 7) == (b"", ())


def test_json_messages_end_where_their_separators_do() -> None:
    """§9.1.1, gap G-04: the separator counts."""
    assert pack(MESSAGES, b"[1, 22,333]", 10) == (b"1,22,333,", (12, 15, 19))


@generated
@given(values, st.integers(0, 10**15))
def test_any_run_between_two_boundaries_is_the_array_of_its_messages(messages: list[bytes], tail: int) -> None:
    """§9.1.5: what is stored between two boundaries is whole messages."""
    stored, ends = pack(MESSAGES, b"[" + b" , ".join(messages) + b"]", tail)

    assert (len(ends), ends[-1]) == (len(messages), tail + len(stored))
    for message, (start, end) in zip(messages, pairwise((tail, *ends)), strict=True):
        assert unpack(MESSAGES, stored[start - tail : end - tail]) == b"[" + message + b"]"
    assert unpack(MESSAGES, stored) == b"[" + b",".join(messages) + b"]"


def test_nothing_stored_is_an_empty_body_of_its_kind() -> None:
    """§8: `[]` for JSON, 0 bytes for everything else."""
    assert (unpack(MESSAGES, b""), unpack(OCTETS, b"")) == (b"[]", b"")


@pytest.mark.parametrize("identity", [OCTETS, MESSAGES], ids=["bytes", "JSON"])
@pytest.mark.parametrize("cuts", [(), (3,), (1, 4, 5)])
def test_parts_make_the_whole_body_and_its_size(identity: Identity, cuts: tuple[int, ...]) -> None:
    """§9.1.5: a long page is sent part by part."""
    stored = b'1,"a,b",[2,3],'
    places = [0, *cuts, len(stored)]
    parts = [
        unpack_part(identity, stored[start:end], first=start == 0, last=end == len(stored))
        for start, end in pairwise(places)
    ]
    assert b"".join(parts) == unpack(identity, stored)
    assert unpacked_bytes(identity, len(stored)) == len(unpack(identity, stored))
