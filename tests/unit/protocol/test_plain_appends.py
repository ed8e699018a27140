"""The plain decision on an append: wherever it decides, it decides as the general rule does."""

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from everbrook.protocol import Append, Appended, Claim, Head, Identity, Producer, Write
from everbrook.protocol.append import decide_append, decide_plainly
from everbrook.protocol.commands import Decision
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.state import Kept
from tests.kit.views import JSON, NOW, TEXT, KeptStream, Streams

seqs = st.integers(0, 3)
positions = st.sampled_from([None, b"1", b"2"])
identities = st.builds(
    lambda content_type, ttl_secs, expires_at: Identity(
        b"s", 1, content_type, content_type, NOW, ttl_secs=ttl_secs, expires_at=expires_at
    ),
    st.sampled_from([TEXT, JSON]),
    st.sampled_from([None, 0, 5]),
    st.sampled_from([None, NOW, NOW + 5000]),
)
heads = st.builds(
    Head,
    identities,
    st.just(0),
    st.sampled_from([NOW, NOW + 7]),
    closed=st.sampled_from([False, False, False, True]),
    stream_seq=st.sampled_from([None, b"b"]),
    deleted=st.sampled_from([False, False, False, True]),
    kept=st.just(Kept()),
)
producers = st.builds(Producer, seqs, seqs, st.just(NOW), positions)
claims = st.none() | st.builds(Claim, st.sampled_from([b"p", b"q"]), seqs, seqs)
appends = st.builds(
    Append,
    st.just(b"s"),
    st.sampled_from([NOW - 5, NOW, NOW + 4999, NOW + 5000]),
    st.sampled_from([TEXT, JSON, b"Text/Plain", None]),
    st.sampled_from([b"", b"1", b"[1, 2]", b"[]", b"{"]),
    st.sampled_from([False, False, True]),
    claims,
    st.sampled_from([None, b"a", b"b", b"c"]),
    st.sampled_from([None, 0, 1]),
    st.none(),
    positions,
    st.sampled_from([None, None, b"", b"1"]),
)


def decided(stream: KeptStream, append: Append) -> Decision | type[ProtocolError]:
    streams = Streams()
    streams.kept[b"s"] = stream
    try:
        return decide_append(streams, append)
    except ProtocolError as error:
        return type(error)


def plainly_decided(stream: KeptStream, append: Append) -> Decision | type[ProtocolError] | None:
    try:
        write = decide_plainly(stream, append)
    except ProtocolError as error:
        return type(error)
    return None if write is None else Decision(Appended(write.head, write.producer), (write,))


@given(heads, st.dictionaries(st.sampled_from([b"p", b"q"]), producers), appends)
def test_the_plain_decision_is_the_general_one(head: Head, known: dict[bytes, Producer], append: Append) -> None:
    stream = KeptStream(head, producers=known)
    plain = plainly_decided(stream, append)
    assert plain is None or plain == decided(stream, append)


def test_common_appends_are_decided_plainly() -> None:
    head = Head(Identity(b"s", 1, TEXT, TEXT, NOW), 0, NOW, stream_seq=b"a")
    stream = KeptStream(head, producers={b"p": Producer(2, 7, NOW, b"x")})
    of_producer = Append(b"s", NOW, TEXT, b"x", claim=Claim(b"p", 2, 8), position=b"y")
    for append in (Append(b"s", NOW, TEXT, b"x"), Append(b"s", NOW, TEXT, b"x", stream_seq=b"b"), of_producer):
        assert isinstance(decide_plainly(stream, append), Write)


OPEN = Head(Identity(b"s", 1, TEXT, TEXT, NOW), 0, NOW, stream_seq=b"b")
KNOWN = {b"p": Producer(2, 7, NOW), b"positioned": Producer(0, 0, NOW, b"x")}


@pytest.mark.parametrize(
    "head, append",
    [
        (OPEN, Append(b"s", NOW, TEXT, b"")),
        (OPEN, Append(b"s", NOW, b"Text/Plain", b"x")),
        (OPEN, Append(b"s", NOW, TEXT, b"x", close=True)),
        (OPEN, Append(b"s", NOW, TEXT, b"x", expected_tail=0)),
        (OPEN, Append(b"s", NOW, TEXT, b"x", stream_seq=b"a")),
        (replace(OPEN, closed=True), Append(b"s", NOW, TEXT, b"x")),
        (replace(OPEN, deleted=True), Append(b"s", NOW, TEXT, b"x")),
        (OPEN, Append(b"s", NOW, TEXT, b"x", claim=Claim(b"new", 0, 0))),
        (OPEN, Append(b"s", NOW, TEXT, b"x", claim=Claim(b"p", 2, 7))),
        (OPEN, Append(b"s", NOW, TEXT, b"x", claim=Claim(b"p", 2, 9))),
        (OPEN, Append(b"s", NOW, TEXT, b"x", claim=Claim(b"p", 3, 0))),
        (OPEN, Append(b"s", NOW, TEXT, b"x", claim=Claim(b"p", 2, 8), resumes_from=b"")),
        (OPEN, Append(b"s", NOW, TEXT, b"x", claim=Claim(b"positioned", 0, 1))),
        (Head(Identity(b"s", 1, JSON, JSON, NOW), 0, NOW), Append(b"s", NOW, JSON, b"[]")),
    ],
)
def test_other_appends_need_the_general_rule(head: Head, append: Append) -> None:
    assert decide_plainly(KeptStream(head, producers=KNOWN), append) is None


def test_an_append_in_json_mode_is_decided_plainly() -> None:
    head = Head(Identity(b"s", 1, JSON, JSON, NOW), 0, NOW)
    write = decide_plainly(KeptStream(head), Append(b"s", NOW, JSON, b"[1, 2]"))
    assert write is not None
    assert (write.data, write.ends) == (b"1,2,", (2, 4))
