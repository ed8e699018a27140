"""The catalogue: which streams there are, and where they end, in few requests."""

import threading
import time

import pytest

from everbrook import Client
from everbrook.spark.connection import Connection, connect
from everbrook.spark.options import Selection, ServerOptions
from everbrook.spark.streams.catalogue import ListedCatalogue, NamedCatalogue, open_catalogue
from everbrook.spark.streams.offsets import offset_of


def listed(connection: Connection, **selection: object) -> ListedCatalogue:
    catalogue = ListedCatalogue(connection, Selection(**selection))  # type: ignore[arg-type]
    catalogue.refresh()
    return catalogue


def test_new_streams_appear_and_deleted_ones_go(client: Client, connection: Connection, prefix: str) -> None:
    client.stream(f"{prefix}a").create()
    catalogue = listed(connection, prefix=prefix)
    client.stream(f"{prefix}b").create(data=1)
    client.stream(f"{prefix}a").delete()
    catalogue.refresh()
    assert {name: found.tail for name, found in catalogue.streams.items()} == {f"{prefix}b": offset_of(2)}


def test_a_pattern_has_one_segment_for_each_star(client: Client, connection: Connection, prefix: str) -> None:
    for name in ("x/log", "y/log", "x/y/log", "x/other"):
        client.stream(prefix + name).create()
    catalogue = listed(connection, pattern=f"{prefix}*/log")
    assert sorted(catalogue.streams) == [f"{prefix}x/log", f"{prefix}y/log"]


def test_streams_known_by_name_are_found_among_others(client: Client, connection: Connection, prefix: str) -> None:
    for name in ("a", "a2", "b", "c"):
        client.stream(prefix + name).create()
    catalogue = listed(connection, names=(f"{prefix}a", f"{prefix}b", f"{prefix}missing"))
    client.stream(f"{prefix}a").append(1)
    client.stream(f"{prefix}c").append(1)
    catalogue.refresh()
    assert {name: found.tail for name, found in catalogue.streams.items()} == {
        f"{prefix}a": offset_of(2),
        f"{prefix}b": offset_of(0),
    }


def test_a_stream_that_was_created_anew_has_another_end(client: Client, connection: Connection, prefix: str) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create()
    catalogue = listed(connection, names=(stream.name,))
    before = catalogue.ends[stream.name]
    stream.delete()
    stream.create()
    catalogue.refresh()
    assert catalogue.ends[stream.name] != before
    assert catalogue.streams[stream.name].incarnation == stream.head().incarnation


def test_a_closed_stream_is_known_to_be(client: Client, connection: Connection, prefix: str) -> None:
    client.stream(f"{prefix}a").create(data=1, closed=True)
    assert listed(connection, prefix=prefix).ends[f"{prefix}a"].endswith("$")


@pytest.mark.timing
@pytest.mark.parametrize("selection", [{"names": ("a",)}, {"prefix": ""}, {"names": ("a", "b")}])
def test_waiting_ends_soon_after_an_append(
    client: Client, connection: Connection, prefix: str, selection: dict[str, object]
) -> None:
    names = tuple(prefix + name for name in selection.get("names", ()))  # type: ignore[attr-defined]
    stream = client.stream(f"{prefix}a")
    stream.create()
    catalogue = listed(connection, names=names) if names else listed(connection, prefix=prefix)
    timer = threading.Timer(0.2, stream.append, [1])
    timer.start()
    begun = time.monotonic()
    catalogue.wait(5.0)
    timer.join()
    assert time.monotonic() - begun < 2.5
    assert catalogue.streams[stream.name].tail == offset_of(2)


@pytest.mark.timing
def test_waiting_for_nothing_ends(client: Client, connection: Connection, prefix: str) -> None:
    client.stream(f"{prefix}a").create()
    catalogue = listed(connection, names=(f"{prefix}a",))
    begun = time.monotonic()
    catalogue.wait(0.2)
    assert 0.15 < time.monotonic() - begun < 1.5


def test_a_token_that_the_server_does_not_know_any_more_is_replaced(
    client: Client, connection: Connection, prefix: str
) -> None:
    catalogue = listed(connection, prefix=prefix)
    catalogue.token = "0-0"  # noqa: S105
    client.stream(f"{prefix}a").create()
    catalogue.refresh()
    assert list(catalogue.streams) == [f"{prefix}a"]


def test_streams_of_another_server_are_asked_for_one_by_one(
    client: Client, connection: Connection, prefix: str
) -> None:
    client.stream(f"{prefix}a").create(data=1)
    catalogue = NamedCatalogue(connection, (f"{prefix}a", f"{prefix}missing"))
    catalogue.refresh()
    assert catalogue.ends == {f"{prefix}a": f"2@#{client.stream(f'{prefix}a').head().incarnation}"}


def test_a_bucket_is_looked_at_by_itself(client: Client, server: str) -> None:
    client.bucket("catalogued").create()
    client.bucket("catalogued").stream("one").create()
    catalogue = open_catalogue(connect(ServerOptions(url=server), "catalogued"), Selection(bucket="catalogued"))
    catalogue.refresh()
    assert list(catalogue.streams) == ["one"]
