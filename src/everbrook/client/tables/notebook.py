"""HTML for notebooks: everything is escaped, and the size is bounded. It needs no pyarrow."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import asdict

MAX_ROWS = 50
MAX_COLUMNS = 30
MAX_CELL_CHARACTERS = 120
# As `html.escape` does; importing `html` takes longer than importing this module.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def format_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write rows below the names of their columns, up to a bound of each."""
    taken = list(islice(rows, MAX_ROWS + 1))
    more = ", the first ones" if len(taken) > MAX_ROWS else ""
    shown = [*columns[:MAX_COLUMNS], *(["…"] if len(columns) > MAX_COLUMNS else [])]
    head = "".join(f"<th>{_cell(name)}</th>" for name in shown)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in taken[:MAX_ROWS])
    return f"<table><caption>{_cell(caption)}{more}</caption><tr>{head}</tr>{body}</table>"


def format_record(caption: str, fields: Mapping[str, object]) -> str:
    """Write the fields of one record, a line for each."""
    lines = "".join(f"<tr><th>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in fields.items())
    return f"<table><caption>{_cell(caption)}</caption>{lines}</table>"


def show_record(record: Struct) -> str:
    """Write a record with all its fields."""
    return format_record(type(record).__name__, asdict(record))


def show_records(caption: str, records: Sequence[Struct]) -> str:
    """Write records of one class, a row for each."""
    columns = list(asdict(records[0])) if records else []
    return format_table(caption, columns, ([*asdict(record).values()] for record in records))


def _cells(row: Sequence[object]) -> str:
    cells = [_cell(value) for value in row[:MAX_COLUMNS]] + (["…"] if len(row) > MAX_COLUMNS else [])
    return "".join(f"<td>{cell}</td>" for cell in cells)


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return (text if len(text) <= MAX_CELL_CHARACTERS else f"{text[:MAX_CELL_CHARACTERS]}…").translate(_ESCAPES)
