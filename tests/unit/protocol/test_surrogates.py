r"""Lone surrogates beside the append itself: arrays that are split, values that are validated (gap G-03)."""

import msgspec
import pytest

from everbrook.protocol.json_text import decode_mended, require_json, split_array

LONE = rb'"\ud83d"'
WRONG = [b"[1", rb'["\ud83d"', rb'["\ud83d" 1]']


@pytest.mark.parametrize("values", [[b"1", b'{"a":2}'], [LONE, b"1", LONE]])
def test_an_array_is_split_into_its_bytes(values: list[bytes]) -> None:
    assert [bytes(value) for value in split_array(b"[%b]" % b" , ".join(values))] == values


@pytest.mark.parametrize("array", WRONG)
def test_what_is_no_array_is_not_split(array: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        split_array(array)


@pytest.mark.parametrize("text", [b"1", LONE, rb'{"\udc00": [1, "\ud800"]}'])
def test_json_passes(text: bytes) -> None:
    require_json(text)


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_json_does_not_pass(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        require_json(text)


def test_a_lone_surrogate_is_decoded_as_the_replacement_character() -> None:
    assert decode_mended(msgspec.json.decode, b'["a"]') == ["a"]
    assert decode_mended(msgspec.json.decode, b"[%b]" % LONE) == ["\N{REPLACEMENT CHARACTER}"]
    with pytest.raises(msgspec.DecodeError):
        decode_mended(msgspec.json.decode, b"[1")
