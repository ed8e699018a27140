"""The messages of Postgres' output plugin `pgoutput`, version 1 of its protocol: bytes in, values out.

The module does no input or output. Values of columns stay the text that Postgres sent: their meaning depends on types,
which are not part of the protocol. Messages that a capture does not use (origins, types, custom messages) are None.
"""

from collections.abc import Callable
from struct import (
    Struct as Layout,
    error as StructError,  # noqa: N812 - a class
)
from typing import Final

from msgspec import Struct

Tuple = list[bytes | None]
"""The values of a row by column. None is NULL, and `UNCHANGED` a large value that an update has not touched."""

UNCHANGED: Final = b"\x00unchanged"
"""A value that no text of Postgres equals, because text has no zero byte. Compare it by `is`."""

_BEGIN = Layout(">QqI")
_COMMIT = Layout(">BQQq")
_INT32 = Layout(">I")
_INT16 = Layout(">H")
_COLUMN = Layout(">Ii")
_TEXT, _NULL, _UNCHANGED = b"tnu"


class InvalidMessage(ValueError):
    """Bytes are no message of pgoutput."""


class Begin(Struct, frozen=True, gc=False):
    """A transaction that was committed at an LSN; its changes follow."""

    commit_lsn: int
    committed_at_us: int
    """Microseconds since 2000-01-01 UTC."""
    xid: int


class Commit(Struct, frozen=True, gc=False):
    """The end of a transaction. All that was committed before `end_lsn` has been sent."""

    commit_lsn: int
    end_lsn: int


class Column(Struct, frozen=True, array_like=True):
    """A column of a table at some time."""

    name: str
    type_oid: int
    modifier: int = -1


class Relation(Struct, frozen=True):
    """The shape of a table, for the changes that follow."""

    id: int
    schema: str
    name: str
    identity: str
    columns: tuple[Column, ...]
    identifying: frozenset[str]
    """The columns that old rows contain."""


class Insert(Struct, frozen=True):
    """A new row."""

    relation_id: int
    new: Tuple


class Update(Struct, frozen=True):
    """A changed row. `old` is given if its identity changed, or if the table's identity is the whole row."""

    relation_id: int
    old: Tuple | None
    new: Tuple
    whole: bool
    """Whether `old` is all of the row, rather than its identifying columns with all others NULL."""


class Delete(Struct, frozen=True):
    """A row that is gone."""

    relation_id: int
    old: Tuple
    whole: bool


class Truncate(Struct, frozen=True):
    """Tables that were emptied, together."""

    relation_ids: tuple[int, ...]


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate


def parse_message(data: bytes) -> Message | None:
    """Parse one message. None for kinds that are skipped."""
    try:
        parse = _PARSERS[data[0]]
        return parse(data)
    except KeyError:
        raise InvalidMessage(f"pgoutput has no message of the kind {chr(data[0])!r} in version 1") from None
    except (IndexError, ValueError, StructError) as error:
        raise InvalidMessage(f"a message of pgoutput that can't be read: {data[:64]!r} ({error})") from error


def _begin(data: bytes) -> Begin:
    return Begin(*_BEGIN.unpack_from(data, 1))


def _commit(data: bytes) -> Commit:
    _, commit_lsn, end_lsn, _ = _COMMIT.unpack_from(data, 1)
    return Commit(commit_lsn, end_lsn)


def _relation(data: bytes) -> Relation:
    relation_id = _INT32.unpack_from(data, 1)[0]
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    identity, count = chr(data[at]), _INT16.unpack_from(data, at + 1)[0]
    at += 3
    columns, identifying = [], set()
    for _ in range(count):
        column_name, end = _string(data, at + 1)
        columns.append(Column(column_name, *_COLUMN.unpack_from(data, end)))
        if data[at] & 1:
            identifying.add(column_name)
        at = end + _COLUMN.size
    return Relation(relation_id, schema or "pg_catalog", name, identity, tuple(columns), frozenset(identifying))


def _insert(data: bytes) -> Insert:
    _expect(data, 5, b"N")
    return Insert(_INT32.unpack_from(data, 1)[0], _tuple(data, 6)[0])


def _update(data: bytes) -> Update:
    relation_id = _INT32.unpack_from(data, 1)[0]
    kind, at, old = data[5], 5, None
    if kind in b"KO":
        old, at = _tuple(data, 6)
    _expect(data, at, b"N")
    return Update(relation_id, old, _tuple(data, at + 1)[0], kind == ord("O"))


def _delete(data: bytes) -> Delete:
    _expect(data, 5, b"KO")
    return Delete(_INT32.unpack_from(data, 1)[0], _tuple(data, 6)[0], data[5] == ord("O"))


def _truncate(data: bytes) -> Truncate:
    count = _INT32.unpack_from(data, 1)[0]
    return Truncate(tuple(_INT32.unpack_from(data, 6 + 4 * place)[0] for place in range(count)))


def _nothing(_data: bytes) -> None:
    return None


def _tuple(data: bytes, at: int) -> tuple[Tuple, int]:
    """Read the values of a row, and where they end."""
    count = _INT16.unpack_from(data, at)[0]
    at += 2
    values: Tuple = []
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + _INT32.unpack_from(data, at + 1)[0]
            values.append(data[start:at])
        elif kind == _NULL or kind == _UNCHANGED:  # noqa: PLR1714, SIM109 - for every column of every row
            values.append(None if kind == _NULL else UNCHANGED)
            at += 1
        else:
            raise InvalidMessage(f"a column of the kind {chr(kind)!r}, where t, n or u was expected")
    if at > len(data):
        raise InvalidMessage(f"a row that goes on for {at - len(data)} bytes after the end of its message")
    return values, at


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _expect(data: bytes, at: int, kinds: bytes) -> None:
    if data[at] not in kinds:
        raise InvalidMessage(f"{chr(data[at])!r} at byte {at}, where {' or '.join(map(chr, kinds))} was expected")


_PARSERS: dict[int, Callable[[bytes], Message | None]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("Y"): _nothing,
    ord("O"): _nothing,
    ord("M"): _nothing,
}
