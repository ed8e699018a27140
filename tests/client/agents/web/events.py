"""A reader of Server-Sent Events, as a browser is one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from everbrook.protocol import Decoder, Event
from tests.kit.faults.writer import TLS

PATIENCE_SECS = 60.0


@contextmanager
def reading(method: str, url: str, **options: Any) -> Iterator[tuple[httpx2.Response, Iterator[Event]]]:  # noqa: ANN401
    """The response, and its events as they come. Leaving the context leaves the response, as a reload does."""
    with httpx2.Client(timeout=PATIENCE_SECS, verify=TLS) as http, http.stream(method, url, **options) as response:
        yield response, _events(response)


def read_all(method: str, url: str, **options: Any) -> list[Event]:  # noqa: ANN401
    """Every event of a response."""
    with reading(method, url, **options) as (_, events):
        return list(events)


def words_of(events: list[Event]) -> list[Any]:
    """What the messages say; the event that ends them is none."""
    return [json.loads(event.data) for event in events if event.type == b"message"]


def behind(event: Event) -> dict[str, str]:
    """What an `EventSource` says when it comes back."""
    return {"Last-Event-ID": (event.id or b"").decode()}


def _events(response: httpx2.Response) -> Iterator[Event]:
    decoder = Decoder()
    for received in response.iter_bytes():
        yield from decoder.feed(received)
