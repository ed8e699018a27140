"""Edits as bytes: what is packed comes back."""

from array import array

import pytest
from msgspec.structs import replace

from everbrook.protocol import Edit, Split, Write
from everbrook.storage.codec import Unpacker, pack_edit, unpack_edit
from tests.kit.drafts import Draft

MESSAGES = [b"%d," % number for number in range(1000)]


Case = tuple[list[bytes], str]


@pytest.fixture(params=["B", "I"])
def case(request: pytest.FixtureRequest) -> Case:
    """A batch, and the type of the lengths of its messages."""
    longest = 255 if request.param == "B" else 256
    return [*MESSAGES, b"1" * (longest - 1) + b","], request.param


def unpacked(packed: bytes, draft: Draft) -> Edit:
    return unpack_edit(Unpacker(packed), lambda _: draft.head)


def written(draft: Draft, batch: list[bytes]) -> Write:
    draft.write(b"0,")
    return draft.write(*batch)


def test_the_lengths_of_messages_come_back(case: Case) -> None:
    draft = Draft(b"numbers", 1, json=True)
    write = written(draft, case[0])
    assert unpacked(pack_edit(write), draft) == write


def test_the_length_of_a_short_message_takes_one_byte() -> None:
    write = written(Draft(b"numbers", 1, json=True), MESSAGES)
    assert len(pack_edit(write)) < len(write.data) + len(MESSAGES) + 100


def test_a_large_batch_is_packed_as_others_are(case: Case) -> None:
    batch, typecode = case
    write = written(Draft(b"numbers", 1, json=True), batch)
    split = Split(write.data, array(typecode, map(len, batch)))
    _, ends = split.pack(write.head.tail - len(write.data))
    assert pack_edit(replace(write, ends=ends)) == pack_edit(write)
