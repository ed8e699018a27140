"""The producers of a stream: who has appended idempotently, and how far each has come (§5.2.1)."""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from everbrook.engine.engine import Engine
from everbrook.protocol.state import Producer
from everbrook.server.exchange import Request, Response
from everbrook.server.resources.headers import json_response, with_incarnation
from everbrook.server.routes import Route

MAX_TOLD = 1000


class Entry(Struct):
    """A producer, as it is told of."""

    producer_id: str
    epoch: int
    seq: int
    last_append_at_ms: int
    position: str | UnsetType = UNSET


class Producers(Struct):
    """Those of a stream that appended last, the last one first, and how many there are in all."""

    producer_count: int
    producers: list[Entry]


class ProducerResource:
    """What can be asked of a stream's producers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, request: Request, common: bytes, route: Route) -> Response:
        """GET."""
        stream = self._engine.readers.find(route.name, self._engine.clock.now())
        common = with_incarnation(request, common, stream.committed.identity, self._engine.epoch)
        known = stream.producers
        last = list(known.items())[: -MAX_TOLD - 1 : -1]
        told = Producers(len(known), [_entry(producer_id, producer) for producer_id, producer in last])
        response = json_response(200, common, msgspec.json.encode(told))
        response.rests_on = self._engine.last_change
        return response


def _entry(producer_id: bytes, producer: Producer) -> Entry:
    position = UNSET if producer.position is None else producer.position.decode("utf-8", "backslashreplace")
    told_id = producer_id.decode("utf-8", "backslashreplace")
    return Entry(told_id, producer.epoch, producer.seq, producer.seen_at, position)
