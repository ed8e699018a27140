"""Copying tables as they were when their slot was made, over several connections at once, into files.

All connections look at the snapshot that the slot was made with: what is committed later is not in the copy, and is in
the slot. Tables are parted by the places of their rows on disk, so that a large one is read by several.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql

from everbrook.spark.capture.catalogue import Leaf, Table, leaves_of
from everbrook.spark.capture.errors import CaptureError, CaptureRefused, PostgresAway
from everbrook.spark.capture.options import CaptureOptions
from everbrook.spark.capture.publishing import Published
from everbrook.spark.capture.replication import connect
from everbrook.spark.capture.spool import Part


class Piece(Struct, frozen=True):
    """Pages of a table that go into one file."""

    table: Table
    leaf: Leaf
    first_page: int
    last_page: int | None
    """The first page that is not of this piece. None is the end of the table, wherever that is."""


def copy_tables(options: CaptureOptions, snapshot: str, published: list[Published], pages_per_part: int) -> list[Part]:
    """Copy tables into files of the capture's folder, which are on disk when this returns."""
    url, folder = options.url, options.location
    with connect(url) as connection:
        by_table = {each.table.oid: each for each in published}
        pieces = [piece for each in published for piece in _pieces(connection, each.table, pages_per_part)]
    with ThreadPoolExecutor(max_workers=options.connections) as pool:
        jobs = [
            pool.submit(_copy, url, snapshot, by_table[piece.table.oid], piece, folder / f"part-{number:05d}.copy")
            for number, piece in enumerate(pieces)
        ]
        return [part for job in jobs if (part := job.result()).size_bytes]


def _pieces(connection: "psycopg.Connection[Any]", table: Table, pages_per_part: int) -> Iterator[Piece]:
    for leaf in leaves_of(connection, table):
        row = connection.execute(
            "SELECT pg_relation_size(%s::oid::regclass) / current_setting('block_size')::int8", [leaf.oid]
        ).fetchone()
        pages = int(row[0]) if row else 0
        bounds = [*range(0, max(pages, 1), pages_per_part), None]
        for first, last in pairwise(bounds):
            yield Piece(table, leaf, first or 0, last)


def _copy(url: str, snapshot: str, published: Published, piece: Piece, path: Path) -> Part:
    try:
        with connect(url, autocommit=False) as connection, path.open("wb") as file:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
            with connection.cursor().copy(_statement(published, piece)) as rows:
                for block in rows:
                    file.write(block)
            file.flush()
            os.fsync(file.fileno())
    except psycopg.Error as error:
        raise _explained(piece.table, error) from error
    except OSError as error:
        raise CaptureError(f"the copy of {piece.table.full_name} can't be written to {path}: {error}") from error
    return Part(piece.table.type, path.name, path.stat().st_size)


def _statement(published: Published, piece: Piece) -> sql.Composed:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in published.table.columns)
    where = sql.SQL("ctid >= {}").format(sql.Literal(f"({piece.first_page},0)"))
    if piece.last_page is not None:
        where += sql.SQL(" AND ctid < {}").format(sql.Literal(f"({piece.last_page},0)"))
    if published.row_filter is not None:
        where += sql.SQL(" AND ({})").format(sql.SQL(published.row_filter))
    select = sql.SQL("SELECT {} FROM ONLY {} WHERE {}").format(columns, piece.leaf.identifier, where)
    return sql.SQL("COPY ({}) TO STDOUT").format(select)


def _explained(table: Table, error: psycopg.Error) -> CaptureError:
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, psycopg.errors.ObjectInUse):
        return PostgresAway(f"the copy of {table.full_name} was cut off: {str(error).strip()}")
    return CaptureRefused(f"{table.full_name} can't be copied: {str(error).strip()}")
