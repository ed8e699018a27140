"""Pages become columns: offsets that can be read from, times, and the messages byte by byte."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from everbrook.client.errors import InvalidAnswer
from everbrook.client.page import Page
from everbrook.client.tables.table_page import table_pages_of
from tests.client.tables.jsonl import FIRST_TIME, table_page
from tests.kit.generated import generated


@generated
@given(st.lists(st.binary(max_size=20), min_size=1), st.integers(0, 10**15), st.sampled_from([b"", b","]))
def test_each_message_has_its_bytes_and_its_offsets(messages: list[bytes], first: int, trailer: bytes) -> None:
    page = table_page(messages, first, trailer)
    frames = list(page.frames)
    assert page.values(pa.binary()).to_pylist() == messages
    assert page.offsets().to_pylist() == [f"{frame.offset:016d}" for frame in frames]
    assert page.next_offsets().to_pylist() == [f"{frame.next_offset:016d}" for frame in frames]
    assert page.next_offset == page.next_offsets()[-1].as_py()


def test_times_are_moments() -> None:
    times = table_page([b"1", b"2"]).times()
    assert times.to_pylist()[0] == datetime.fromtimestamp(FIRST_TIME / 1000, UTC)
    assert times.type == pa.timestamp("ms", "UTC")


def test_times_are_taken_over_without_a_copy() -> None:
    page = table_page([b"1", b"2"])
    assert page.times().buffers()[1].address == page.frames.times.buffer_info()[0]


def test_bytes_are_taken_over_without_a_copy() -> None:
    page = table_page([b"1", b"22"], trailer=b"")
    assert page.values(pa.binary()).buffers()[2].address == pa.py_buffer(page.frames.data).address


def test_text_is_read_as_text_also_where_a_character_is_cut_in_two() -> None:
    assert table_page(["é🙂".encode(), b""], trailer=b"").values(pa.string()).to_pylist() == ["é🙂", ""]
    assert table_page([b"a\xc3", b"\xa9"], trailer=b"").values(pa.string()).to_pylist() == ["a\ufffd", "\ufffd"]


def test_the_messages_of_json_have_commas_between_them() -> None:
    assert table_page([b"1", b"[2,3]"]).messages == b"1,[2,3]"


def page(data: bytes, content_type: str = "application/json") -> Page:
    return Page("7_0", "9_4", data, content_type)


def test_another_server_s_page_of_json_is_split_into_its_messages() -> None:
    [found] = table_pages_of(page(b'[ 1,\n{"a": [2]} , "x,y" ]'))
    assert found.values(pa.string()).to_pylist() == ["1", '{"a": [2]}', '"x,y"']
    assert found.messages == b'1,{"a": [2]},"x,y"'


def test_of_another_server_s_page_only_its_ends_have_offsets() -> None:
    [found] = table_pages_of(page(b"[1,2,3]"))
    assert found.offsets().to_pylist() == ["7_0", None, None]
    assert found.next_offsets().to_pylist() == [None, None, "9_4"]
    assert found.times().to_pylist() == [None] * 3
    assert found.next_offset == "9_4"


def test_another_server_s_page_of_bytes_is_one_message() -> None:
    [found] = table_pages_of(page(b"[1,2]", "text/plain"))
    assert found.values(pa.string()).to_pylist() == ["[1,2]"]


@pytest.mark.parametrize("empty", [page(b"[]"), page(b""), page(b"", "text/plain")])
def test_an_empty_page_has_no_pieces(empty: Page) -> None:
    assert list(table_pages_of(empty)) == []


@pytest.mark.parametrize("data", [b'{"a": 1}', b"[1", b"[" * 514 + b"]" * 514, b"[" * 100_000])
def test_a_page_that_is_no_array_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidAnswer, match="not an array of JSON"):
        list(table_pages_of(page(data)))
