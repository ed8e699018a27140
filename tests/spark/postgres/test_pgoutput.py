"""The messages of pgoutput: what is written by its documentation is read back, and anything else is refused."""

import struct
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from hypothesis import given, strategies as st

from everbrook.spark.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    InvalidMessage,
    Message,
    Relation,
    Truncate,
    Tuple,
    Update,
    parse_message,
)

Sql = psycopg.Connection[Any]

lsns, oids = st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)
times, modifiers = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=63)
values = st.none() | st.just(UNCHANGED) | st.binary(max_size=40)
rows = st.lists(values, max_size=8)
columns = st.lists(st.builds(Column, names, oids, modifiers), max_size=6, unique_by=lambda column: column.name)
relations = st.builds(
    lambda relation_id, schema, name, identity, columns: Relation(
        relation_id, schema, name, identity, tuple(columns), frozenset(column.name for column in columns[::2])
    ),
    oids,
    names,
    names,
    st.sampled_from("dnfi"),
    columns,
)
messages = st.one_of(
    st.builds(Begin, lsns, times, oids),
    st.builds(Commit, lsns, lsns),
    relations,
    st.builds(Insert, oids, rows),
    st.builds(lambda oid, new: Update(oid, None, new, whole=False), oids, rows),
    st.builds(Update, oids, rows, rows, st.booleans()),
    st.builds(Delete, oids, rows, st.booleans()),
    st.builds(Truncate, st.lists(oids, max_size=5).map(tuple)),
)


def written(message: Message) -> bytes:  # noqa: PLR0911 - one for each kind
    """Write a message as Postgres does."""
    match message:
        case Begin():
            return b"B" + struct.pack(">QqI", message.commit_lsn, message.committed_at_us, message.xid)
        case Commit():
            return b"C" + struct.pack(">BQQq", 0, message.commit_lsn, message.end_lsn, 0)
        case Relation():
            return b"R" + written_relation(message)
        case Insert():
            return b"I" + struct.pack(">I", message.relation_id) + b"N" + written_row(message.new)
        case Update():
            old = b"" if message.old is None else (b"O" if message.whole else b"K") + written_row(message.old)
            return b"U" + struct.pack(">I", message.relation_id) + old + b"N" + written_row(message.new)
        case Delete():
            kind = b"O" if message.whole else b"K"
            return b"D" + struct.pack(">I", message.relation_id) + kind + written_row(message.old)
        case Truncate():
            ids = b"".join(struct.pack(">I", each) for each in message.relation_ids)
            return b"T" + struct.pack(">IB", len(message.relation_ids), 0) + ids


def written_relation(relation: Relation) -> bytes:
    parts = [struct.pack(">I", relation.id), relation.schema.encode(), b"\0", relation.name.encode(), b"\0"]
    parts += [relation.identity.encode(), struct.pack(">H", len(relation.columns))]
    for column in relation.columns:
        parts += [bytes([column.name in relation.identifying]), column.name.encode(), b"\0"]
        parts.append(struct.pack(">Ii", column.type_oid, column.modifier))
    return b"".join(parts)


def written_row(row: Tuple) -> bytes:
    def one(value: bytes | None) -> bytes:
        if value is None or value is UNCHANGED:
            return b"n" if value is None else b"u"
        return b"t" + struct.pack(">I", len(value)) + value

    return struct.pack(">H", len(row)) + b"".join(map(one, row))


@given(messages)
def test_what_is_written_is_read_back(message: Message) -> None:
    assert parse_message(written(message)) == message


@given(st.builds(Insert, oids, st.lists(st.binary(min_size=1, max_size=9), min_size=1)), st.data())
def test_a_row_that_is_cut_off_is_refused(message: Insert, data: st.DataObject) -> None:
    whole = written(message)
    with pytest.raises(InvalidMessage):
        parse_message(whole[: data.draw(st.integers(1, len(whole) - 1))])


@given(st.binary(min_size=1, max_size=60))
def test_anything_else_is_refused_or_read_but_never_breaks(data: bytes) -> None:
    with suppress(InvalidMessage):
        parse_message(data)


@pytest.mark.parametrize("kind", ["Y", "O", "M"])
def test_messages_of_no_use_are_passed_over(kind: str) -> None:
    assert parse_message(kind.encode() + b"\0" * 20) is None


def test_a_message_of_a_later_version_is_refused_by_its_kind() -> None:
    with pytest.raises(InvalidMessage, match="kind 'S'"):
        parse_message(b"S" + b"\0" * 8)


def test_what_postgres_writes_is_read(items: Sql) -> None:
    items.execute("CREATE PUBLICATION p FOR TABLE items")
    items.execute("SELECT pg_create_logical_replication_slot('real_1', 'pgoutput')")
    with items.transaction():
        items.execute("INSERT INTO items VALUES (3, NULL, 3)")
        items.execute("UPDATE items SET id = 4 WHERE id = 3")
        items.execute("TRUNCATE items")
    found = items.execute(
        "SELECT data FROM pg_logical_slot_get_binary_changes("
        "'real_1', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"
    ).fetchall()
    items.execute("SELECT pg_drop_replication_slot('real_1')")
    begin, relation, insert, update, _, truncate, commit = [parse_message(data) for (data,) in found]
    assert isinstance(relation, Relation)
    assert isinstance(begin, Begin)
    assert isinstance(commit, Commit)
    assert insert == Insert(relation.id, [b"3", None, b"3"])
    assert update == Update(relation.id, [b"3", None, None], [b"4", None, b"3"], whole=False)
    assert truncate == Truncate((relation.id,))
    assert begin.commit_lsn == commit.commit_lsn < commit.end_lsn
