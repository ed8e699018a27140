"""Budgets: what the plan of a batch asks the server for, and what it does again that was done for the schema."""

from collections.abc import Iterator

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from everbrook import Client
from everbrook.spark.connection import connect
from everbrook.spark.options import Selection, ServerOptions
from everbrook.spark.streams.catalogue import ListedCatalogue
from everbrook.spark.streams.offsets import offset_of
from everbrook.spark.streams.stream_source import EverbrookDataSource
from tests.kit.faults.proxy import Proxy
from tests.kit.work import count_lines


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    with Proxy(int(server.rpartition(":")[2])) as proxy:
        yield proxy


@pytest.mark.parametrize("selection", [("streamPrefix", ""), ("streams", "a,{}b")])
def test_the_plan_of_a_batch_asks_only_for_what_moved_since_its_schema(
    client: Client, prefix: str, proxy: Proxy, spark: SparkSession, selection: tuple[str, str]
) -> None:
    for name in ("a", "b"):
        client.stream(prefix + name).create(data={"n": 1})
    option, names = selection
    reader = spark.read.format("everbrook").option("url", proxy.origin)
    frame = reader.option(option, prefix + names.format(prefix)).load()
    proxy.requests.clear()
    client.stream(f"{prefix}b").append({"n": 2})
    assert frame.count() == 3
    asked = [request.target for request in proxy.requests if "format=frames" not in request.target]
    assert len(asked) == 1
    assert "changed_since=" in asked[0]


def test_streams_known_by_name_are_looked_up_in_a_request_each(client: Client, prefix: str, proxy: Proxy) -> None:
    names = (f"{prefix}a", f"{prefix}b")
    for name in names:
        client.stream(name).create()
    catalogue = ListedCatalogue(connect(ServerOptions(url=proxy.origin)), Selection(names))
    catalogue.refresh()
    assert len(proxy.requests) == len(names)
    client.stream(names[0]).append(1)
    catalogue.refresh()
    assert catalogue.streams[names[0]].tail == offset_of(2)


def test_options_are_parsed_once(client: Client, prefix: str, server: str) -> None:
    client.stream(f"{prefix}a").create(data=1)
    source = EverbrookDataSource({"url": server, "stream": f"{prefix}a"})
    schema = source.schema()
    sent: EverbrookDataSource = cloudpickle.loads(cloudpickle.dumps(source))  # type: ignore[no-untyped-call]
    assert count_lines(lambda: sent.reader(schema)) <= 36
