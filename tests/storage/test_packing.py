"""Edits as bytes: what is packed comes back."""

import pytest

from everbrook.protocol import Edit
from everbrook.storage.packing import LENGTHS_AT_ONCE, Unpacker, pack_edit, unpack_edit
from tests.storage.drafts import Draft


def unpacked(edit: Edit, draft: Draft) -> Edit:
    return unpack_edit(Unpacker(pack_edit(edit)), lambda _: draft.head)


@pytest.mark.parametrize("count", [2, LENGTHS_AT_ONCE, LENGTHS_AT_ONCE + 1, 3 * LENGTHS_AT_ONCE - 1])
def test_the_lengths_of_many_messages_come_back(count: int) -> None:
    draft = Draft(b"numbers", 1, json=True)
    draft.write(b"0,")
    write = draft.write(*(b"%d," % number for number in range(count)))
    assert unpacked(write, draft) == write
