"""Traces reach a collector: a span for the request, one for its wait for the disk, one for a webhook."""

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from everbrook.server.observe.observer import observer_of
from everbrook.server.observe.traces import RequestTracer
from everbrook.settings import SettingsError, TraceSettings
from tests.kit.server_thread import GatedStorage, RunningServer, configured, eventually
from tests.kit.servers import Start
from tests.kit.subscriber import Api, Hooks
from tests.server.observe.collector import TraceCollector

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector() -> Iterator[TraceCollector]:
    with TraceCollector() as running:
        yield running


def create(server: RunningServer, path: str, traceparent: str = "") -> int:
    with server.connect() as wire:
        status = wire.create(path, traceparent=traceparent).status
    server.stop()
    return status


def test_a_request_is_a_span_of_the_trace_that_it_comes_with(
    start: Start, collector: TraceCollector, path: str
) -> None:
    server = start(traces__endpoint=collector.url, traces__service_name="orders")
    assert create(server, path, traceparent=f"00-{TRACE}-{PARENT}-01") == 201
    (span,) = collector.named("PUT create")
    assert (span.trace_id.hex(), span.parent_span_id.hex(), collector.services) == (TRACE, PARENT, {"orders"})
    attributes = {each.key: each.value for each in span.attributes}
    assert (attributes["http.response.status_code"].int_value, attributes["url.path"].string_value) == (201, path)


def test_the_wait_for_the_disk_is_a_span_within(start: Start, collector: TraceCollector, path: str) -> None:
    storage = GatedStorage()
    storage.gate.set()
    create(start(storage, traces__endpoint=collector.url), path)
    (request,), (wait,) = collector.named("PUT create"), collector.named("commit wait")
    assert wait.parent_span_id == request.span_id
    assert request.start_time_unix_nano <= wait.start_time_unix_nano <= request.end_time_unix_nano


def test_a_caller_that_does_not_trace_is_not_traced(start: Start, collector: TraceCollector, path: str) -> None:
    create(start(traces__endpoint=collector.url), path, traceparent=f"00-{TRACE}-{PARENT}-00")
    assert collector.spans == []


def test_a_webhook_is_a_span(start: Start, collector: TraceCollector, hooks: Hooks, path: str) -> None:
    server = start(traces__endpoint=collector.url, webhooks__allow_loopback_http=True)
    with server.connect() as wire:
        wire.create(path)
        api = Api(wire)
        api.subscribe("traced", hooks.url, pattern=path.removeprefix("/v1/stream/"))
        wire.append(path, b"news")
        hooks.next()
        assert eventually(lambda: server.application.observer.deliveries[True])
    server.stop()
    assert collector.named("webhook delivery")


def test_a_collector_that_is_gone_fails_no_request(start: Start, path: str) -> None:
    assert create(start(traces__endpoint="http://127.0.0.1:9/v1/traces"), path) == 201


@pytest.mark.timing
@pytest.mark.parametrize("listens", [True, False], ids=["hangs", "is gone"])
def test_a_collector_that_does_not_answer_is_not_waited_for(*, listens: bool) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        tracer = RequestTracer(TraceSettings(endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"))
        tracer.delivered("lost", accepted=True, secs=0.1)
        began = time.monotonic()
        tracer.close()
        assert time.monotonic() - began < 1.6


def test_without_the_package_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "everbrook.server.observe.traces", None)
    with pytest.raises(SettingsError, match=r"everbrook\[otel\]"):
        observer_of(configured(traces__endpoint="http://localhost:4318/v1/traces"))
