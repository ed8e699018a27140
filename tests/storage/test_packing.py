"""Edits as bytes: what is packed comes back."""

from array import array

from msgspec.structs import replace

from everbrook.protocol import Edit, Split, Write
from everbrook.storage.packing import Unpacker, pack_edit, unpack_edit
from tests.storage.drafts import Draft

MESSAGES = [b"%d," % number for number in range(1000)]


def unpacked(packed: bytes, draft: Draft) -> Edit:
    return unpack_edit(Unpacker(packed), lambda _: draft.head)


def written(draft: Draft) -> Write:
    draft.write(b"0,")
    return draft.write(*MESSAGES)


def test_the_lengths_of_messages_come_back() -> None:
    draft = Draft(b"numbers", 1, json=True)
    write = written(draft)
    assert unpacked(pack_edit(write), draft) == write


def test_a_large_batch_is_packed_as_others_are() -> None:
    write = written(Draft(b"numbers", 1, json=True))
    split = Split(write.data, array("I", map(len, MESSAGES)))
    _, ends = split.pack(write.head.tail - len(write.data))
    assert pack_edit(replace(write, ends=ends)) == pack_edit(write)
