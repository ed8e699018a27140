"""What notebooks show is escaped and bounded."""

from itertools import count

from everbrook.client._sync.client import Client
from everbrook.client.models import BucketInfo, Changes, Head, StreamInfo
from everbrook.client.tables.notebook import MAX_CELL_CHARACTERS, MAX_COLUMNS, MAX_ROWS, format_record, format_table

EVIL = "<script>alert('&')</script>"
HARMLESS = "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;"


def test_everything_is_escaped() -> None:
    shown = format_table(EVIL, [EVIL], [[EVIL]]) + format_record(EVIL, {EVIL: EVIL})
    assert "<script" not in shown
    assert shown.count(HARMLESS) == 6


def test_rows_and_columns_are_bounded() -> None:
    columns = [str(number) for number in range(MAX_COLUMNS + 5)]
    shown = format_table("wide", columns, ([0] * len(columns) for _ in range(MAX_ROWS + 5)))
    assert shown.count("<tr>") == 1 + MAX_ROWS
    assert shown.count("<th>") == MAX_COLUMNS + 1
    assert "the first ones" in shown


def test_cells_are_bounded() -> None:
    shown = format_record("long", {"text": "x" * 10_000, "nothing": None})
    assert "x" * MAX_CELL_CHARACTERS + "…" in shown
    assert len(shown) < 2 * MAX_CELL_CHARACTERS + 100


def test_endless_rows_are_not_all_taken() -> None:
    numbers = count()
    format_table("endless", ["n"], ([number] for number in numbers))
    assert next(numbers) == MAX_ROWS + 1


def test_what_is_known_of_streams_and_buckets_is_shown() -> None:
    assert f"<th>content_type</th><td>{HARMLESS}</td>" in Head(EVIL, "7")._repr_html_()
    assert "<td>Open</td>" in StreamInfo("a", "Open")._repr_html_()
    assert "<caption>BucketInfo</caption>" in BucketInfo("agents", 1)._repr_html_()


def test_streams_that_moved_are_shown_in_rows() -> None:
    shown = Changes([StreamInfo("a", "Open"), StreamInfo("b", "Closed")], "token")._repr_html_()
    assert shown.count("<tr>") == 3
    assert "<caption>2 streams</caption>" in Changes([StreamInfo("a", "Open")] * 2, "token")._repr_html_()
    assert "0 streams" in Changes([], "token")._repr_html_()


def test_a_stream_is_shown_without_asking_the_server() -> None:
    with Client("http://127.0.0.1:1") as client:
        shown = client.stream("a&b")._repr_html_()
    assert "<caption>Stream</caption>" in shown
    assert "<td>a&amp;b</td>" in shown
