"""Remembering results, within bounds."""

import pytest

from everbrook.protocol.errors import InvalidPath
from everbrook.protocol.memo import MAX_KEY_BYTES, remember


class Asked(list[bytes]):
    """Measures texts, and keeps a list of those that it was asked for."""

    def length(self, text: bytes) -> int:
        self.append(text)
        return len(text)


def test_a_result_is_remembered_until_as_many_others_came() -> None:
    asked = Asked()
    length = remember(maxsize=2)(asked.length)

    assert [length(text) for text in (b"a", b"a", b"bb", b"a", b"ccc", b"bb")] == [1, 1, 2, 1, 3, 2]
    assert asked == [b"a", b"bb", b"ccc", b"bb"]


@pytest.mark.parametrize("size, times", [(MAX_KEY_BYTES, 1), (MAX_KEY_BYTES + 1, 2)])
def test_a_long_text_is_not_kept(size: int, times: int) -> None:
    """Clients choose the keys: a full memory must stay small."""
    asked = Asked()
    length = remember(maxsize=8)(asked.length)

    assert [length(b"x" * size), length(b"x" * size)] == [size, size]
    assert len(asked) == times


def test_a_refusal_is_not_remembered_as_a_result() -> None:
    def refuse(text: bytes) -> bytes:
        raise InvalidPath(text.decode())

    remembered = remember(maxsize=8)(refuse)
    for _ in range(2):
        with pytest.raises(InvalidPath, match="x"):
            remembered(b"x")
