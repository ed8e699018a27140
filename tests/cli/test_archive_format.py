"""Archives: what is written is read back, to the byte, and what is no archive is named with its line."""

import json

import pytest
from hypothesis import given, strategies as st

from everbrook.cli.commands.archive_format import (
    ArchiveLine,
    BucketLine,
    EndLine,
    InvalidArchive,
    MessageLine,
    SnapshotLine,
    StreamLine,
    format_line,
    format_message,
    format_snapshot,
    next_offset,
    parse_line,
)

OFFSETS = st.integers(0, 10**16 - 1)
TEXT = StreamLine("s", "text/plain", "0" * 16, 1)
JSON = StreamLine("s", "application/json; charset=utf-8", "0" * 16, 1)


@given(OFFSETS, st.integers(0, 2**53), st.binary())
def test_bytes_come_back_as_they_were(offset: int, time_ms: int, payload: bytes) -> None:
    line = format_message(offset, time_ms, payload, json=False)
    assert line.count(b"\n") == 1
    assert parse_line(line, 1) == MessageLine(offset, time_ms, payload, json=False)


@given(OFFSETS, st.recursive(st.integers() | st.text() | st.none(), st.lists), st.sampled_from([None, 1, "\t"]))
def test_json_comes_back_with_line_ends_as_spaces(offset: int, value: object, indent: int | str | None) -> None:
    payload = json.dumps(value, indent=indent).encode()
    line = format_message(offset, 7, payload, json=True)
    assert line.count(b"\n") == 1
    assert parse_line(line, 1) == MessageLine(offset, 7, payload.replace(b"\n", b" "), json=True)


@given(OFFSETS, st.text(), st.binary())
def test_snapshots_come_back_as_they_were(offset: int, content_type: str, data: bytes) -> None:
    text = f"{offset:016}"
    assert parse_line(format_snapshot(text, content_type, data), 1) == SnapshotLine(text, content_type, data)


@pytest.mark.parametrize(
    "line",
    [
        ArchiveLine(1),
        BucketLine("agents", "max-age=60"),
        BucketLine("agents"),
        StreamLine("a", "text/plain", "1" * 16, 5),
        StreamLine("a", "a/b", "1" * 16, 5, "agents", "0" * 16, 60, "2030-01-01T00:00:00Z", "max-bytes=1", closed=True),
        EndLine("1" * 16, 3),
    ],
)
def test_every_other_line_comes_back(line: ArchiveLine | BucketLine | StreamLine | EndLine) -> None:
    assert parse_line(format_line(line), 1) == line


def test_keys_may_be_in_any_order() -> None:
    line = parse_line(b'{"value": 1, "time_ms": 2, "offset": "0000000000000003"}', 1)
    assert line == MessageLine(3, 2, b"1", json=True)


def test_a_comma_is_stored_behind_each_value_of_a_json_stream() -> None:
    line = MessageLine(10, 0, b"123", json=True)
    assert (next_offset(line, JSON), next_offset(line, TEXT)) == (14, 13)


@pytest.mark.parametrize(
    "text, problem",
    [
        (b"", "truncated"),
        (b"nope", "JSON is malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "this is not a line of an archive"),
        (b'{"archive": 2}', "the archive is of version 2, and this program reads version 1"),
        (b'{"stream": "s"}', "missing required field `content_type`"),
        (b'{"offset": "x", "value": 1}', "an offset must be 16 digits, got 'x'"),
        (b'{"offset":"1"}', "it must have the key value, text or base64"),
        (b'{"offset":"1","base64":"!"}', "base64"),
        (b'{"offset":"1","text":1}', "Expected `str`"),
        (b'{"end": 1}', "Expected `str`"),
        (b"\xff", "JSON is malformed"),
        (b'{"stream":"\xff"}', "utf-8"),
        (b'{"value":' * 5000, ""),
    ],
)
def test_what_is_no_line_is_named_with_its_number(text: bytes, problem: str) -> None:
    with pytest.raises(InvalidArchive, match=r"^line 7: ") as caught:
        parse_line(text, 7)
    assert problem in str(caught.value)


@pytest.mark.parametrize("payload", [rb'"\ud83d"', rb'{"\ude00": ["\\", "\uD83D}"] }', rb'[1,"\\ud83d\ud83d"]'])
def test_lone_surrogates_come_back_to_the_byte(payload: bytes) -> None:
    """Gap G-03."""
    line = format_message(3, 7, payload, json=True)
    assert parse_line(line, 1) == MessageLine(3, 7, payload, json=True)


@pytest.mark.parametrize(
    "line", [rb'{"offset":"\ud83d"}', rb'{"offset":"1","value":"\ud83d","time_ms":1}', rb'{"offset":"\ud8']
)
def test_a_lone_surrogate_elsewhere_in_a_line_is_no_archive(line: bytes) -> None:
    with pytest.raises(InvalidArchive):
        parse_line(line, 1)
