"""The registry: a stream of the streams, by which browsers of streams find them."""

from typing import Any

import pytest

from tests.conformance.extensions.additions.test_policies import eventually
from tests.conformance.extensions.client import Client
from tests.conformance.extensions.streams import BASE_ROOT, Namespace, Stream, fresh_name

pytestmark = pytest.mark.extension("registry")


@pytest.fixture
def registry(client: Client) -> Stream:
    return Stream(client, f"{BASE_ROOT}/__registry__", "")


def entries(registry: Stream, since: str, name: str) -> list[Any]:
    """The state messages about a stream that came since an offset."""
    return [message for message in registry.read(offset=since).json if message["key"].endswith(name)]


def test_the_registry_is_a_json_stream(registry: Stream) -> None:
    """Ours: readable like any JSON stream."""
    head = registry.head()
    assert (head.status, head.headers["content-type"]) == (200, "application/json")
    assert type(registry.read(offset=head.next_offset).json) is list


def test_a_created_stream_is_registered(registry: Stream) -> None:
    """Ours: {type, key, value: {path, contentType, createdAt}, headers: {operation}}."""
    since, name = registry.tail, fresh_name()
    Namespace(registry.client, "base", name).stream("s").create("text/csv")
    assert eventually(lambda: entries(registry, since, f"{name}/s"))
    [entry] = entries(registry, since, f"{name}/s")
    assert (entry["type"], entry["headers"]["operation"]) == ("stream", "insert")
    assert entry["value"]["path"].endswith(f"{name}/s")
    assert entry["value"]["contentType"] == "text/csv"
    assert entry["value"]["createdAt"]


def test_a_deleted_stream_is_taken_out(registry: Stream) -> None:
    """Ours: operation delete."""
    since, name = registry.tail, fresh_name()
    stream = Namespace(registry.client, "base", name).stream("s").create()
    assert eventually(lambda: entries(registry, since, f"{name}/s"))
    stream.delete()
    assert eventually(lambda: len(entries(registry, since, f"{name}/s")) == 2)
    operations = [entry["headers"]["operation"] for entry in entries(registry, since, f"{name}/s")]
    assert operations == ["insert", "delete"]


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_clients_cannot_write_the_registry(registry: Stream, method: str) -> None:
    """Ours: PUT/POST/DELETE 405."""
    body = None if method == "DELETE" else b"{}"
    answer = registry.client.request(method, registry.path, body, content_type="application/json")
    assert answer.status == 405
    assert registry.head().status == 200
