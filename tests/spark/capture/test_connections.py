"""Connections of a capture: what its URL says of them, and what a database sets for all."""

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from everbrook.spark.capture.copying import _statement
from tests.spark.capture.query import Capture

Sql = psycopg.Connection[Any]


def test_options_of_the_url_are_kept(sql: Sql, capture: Capture) -> None:
    sql.execute("CREATE SCHEMA shop; CREATE TABLE shop.items (id int PRIMARY KEY); INSERT INTO shop.items VALUES (1)")
    capture.options["url"] += "?options=-csearch_path%3Dshop"
    assert [row["stream"] for row in capture.rows(1)] == ["shop.items"]


def test_a_copy_may_take_longer_than_statements_and_sessions_may(
    items: Sql, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
        items.execute(f'ALTER DATABASE "{items.info.dbname}" SET {setting} = 300')
    monkeypatch.setattr("everbrook.spark.capture.copying._statement", slowly(_statement))
    assert len(capture.rows(2)) == 2


def slowly(statement: Callable[..., psycopg.sql.Composed]) -> Callable[..., psycopg.sql.Composed]:
    def made(*arguments: Any) -> psycopg.sql.Composed:  # noqa: ANN401
        time.sleep(0.5)
        text = statement(*arguments).as_string()
        return psycopg.sql.SQL("{}").format(
            psycopg.sql.SQL(text.replace("WHERE", "WHERE pg_sleep(0.3) IS NOT NULL AND"))
        )

    return made
