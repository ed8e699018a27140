"""The files of a copy: lines as Postgres writes them, ranges by whole rows, and nothing read twice or left out."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from everbrook.spark.postgres.snapshot import Part, Spool, parse_line

lines = st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b"") + b"\n"), max_size=12)


@pytest.mark.parametrize(
    "line,values",
    [
        (b"1\ttext\n", [b"1", b"text"]),
        (b"\\N\t\n", [None, b""]),
        (b"a\\tb\\nc\\\\d\n", [b"a\tb\nc\\d"]),
        (b"\\\\N\n", [b"\\N"]),
        (b"\n", [b""]),
    ],
)
def test_a_line_of_copy_is_a_row(line: bytes, values: list[bytes | None]) -> None:
    assert parse_line(line) == values


@given(st.lists(lines, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 30), st.integers(1, 6))
def test_batches_and_tasks_have_every_row_once_and_in_order(
    files: list[list[bytes]], max_rows: int, max_bytes: int, tasks: int
) -> None:
    with TemporaryDirectory() as folder:
        parts = []
        for number, content in enumerate(files):
            path = Path(folder) / str(number)
            path.write_bytes(b"".join(content))
            parts.append(Part("t", path.name, path.stat().st_size))
        spool = Spool(Path(folder), tuple(parts))
        at, found = 0, []
        while at < spool.size_bytes:
            end = spool.end_of(at, max_rows, max_bytes)
            assert end > at
            found += [row for task in spool.split(at, end, tasks) for each in task for row in spool.rows(each)]
            at = end
    assert [values for _, values in found] == [parse_line(line) for content in files for line in content]
    assert [place for place, _ in found] == sorted({place for place, _ in found})
