"""The registry: a stream that lists the streams of the base surface, for programs that browse them.

Only the server writes it. It costs nothing before its first read. Then the server fills it with the existing streams,
while its readers wait, and from then on appends a message for each durable creation and deletion. It is an ordinary
JSON stream of state messages. When most of its messages are outdated, the server replaces it by a new stream.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.commands import Append, Create, Delete
from everbrook.protocol.content_type import JSON
from everbrook.protocol.errors import MethodNotAllowed, ProtocolError, StreamDamaged, Unavailable
from everbrook.protocol.messages import unpack
from everbrook.protocol.path import REGISTRY, STREAM_ROOT
from everbrook.protocol.state import Drop, Edit, Head
from everbrook.server.tuning import DEFAULT_TUNING, RegistryTuning

GONE = -1
"""Replaces the time of creation if a stream is deleted but still listed."""


class Registered(Struct, rename="camel"):
    """The value of a state message: the registered properties of a stream."""

    path: str
    content_type: str
    created_at: int


class Operation(Struct):
    """The headers of a state message: whether the stream was created or removed."""

    operation: Literal["insert", "delete"]


class Message(Struct):
    """A state message about a stream."""

    type: str
    key: str
    headers: Operation
    value: Registered | UnsetType = UNSET


_messages = msgspec.json.Decoder(list[Message])


def require_writable(name: bytes) -> None:
    """Refuse a client's change of the registry."""
    if name == REGISTRY:
        raise MethodNotAllowed("clients may only read the registry: the server writes it", ((b"Allow", b"GET, HEAD"),))


class Registry:
    """Writes the registry. `_known` is its content: when each stream was created."""

    def __init__(self, engine: Engine, tuning: RegistryTuning = DEFAULT_TUNING.registry) -> None:
        self._engine = engine
        self._tuning = tuning
        self._known: dict[bytes, int] = {}
        self._message_count = 0
        self._noted: dict[bytes, None] = {}
        self._awake = False
        self._filled = False
        self._filling = False
        self._filled_by = 0
        """The last change of the last filling."""
        self._waiting: list[Callable[[], None]] = []
        # If there is no room for the registry, or it is damaged, the server starts without it.
        with suppress(ProtocolError):
            if not engine.exists(REGISTRY):
                self._create()

    def _create(self) -> None:
        engine = self._engine
        engine.execute(Create(REGISTRY, engine.clock.now(), engine.new_incarnation(), JSON))

    def wake(self) -> bool:
        """Start to fill the registry at its first read. Return whether it can be read now."""
        if not self._awake:
            self._awake = True
            self._known.clear()
            self._message_count = 0
            # The registry follows changes before it scans the streams, so that no creation falls between the two.
            if self._note not in self._engine.followers:
                self._engine.followers.append(self._note)
            head = self._find(REGISTRY)
            if head and (head.closed or not head.identity.json):
                # A client created a stream of this name under an earlier version.
                self._replace()
            else:
                self._filling = True
                self._run_step(self._fill())
        return not self._filling

    def wait(self, read: Callable[[], None]) -> None:
        """Call `read` when the registry is filled, or when filling it has failed."""
        self._waiting.append(read)

    def _release(self) -> None:
        self._filling = False
        waiting, self._waiting = self._waiting, []
        for read in waiting:
            self._engine.faults.run(Callback.REGISTRY, read)

    def _end_filling(self, change: int, failure: Unavailable | None) -> None:
        """Release the readers when the content is durable, unless the registry was replaced meanwhile."""
        if change == self._filled_by or failure:
            self._release()

    def _run_step(self, steps: Iterator[None]) -> None:
        """Run one step now, and the next one in a later turn of the event loop."""
        try:
            next(steps)
        except StopIteration:
            self._filled = True
            self._flush()
            if self._filled:
                self._filled_by = self._engine.last_change
                self._engine.when_durable(self._filled_by, partial(self._end_filling, self._filled_by))
        except (StreamDamaged, msgspec.MsgspecError):
            # The content can't be read: it is damaged, or a client wrote it under an earlier version. It follows from
            # the streams, so a new registry loses nothing.
            self._replace()
        except ProtocolError:
            # The storage has no room now, or the registry is not durable yet. Try again later.
            self._give_up()
        else:
            self._engine.faults.soon(Callback.REGISTRY, self._run_step, steps, failed=self._give_up)

    def _fill(self) -> Iterator[None]:
        """Read the registry, then append the missing messages."""
        yield from self._recall()
        yield from self._state_all()

    def _state_all(self) -> Iterator[None]:
        """Append the missing messages about all streams, in slices."""
        gone, after = set(self._known), b""
        while found := self._engine.listing.living(STREAM_ROOT, after, self._tuning.slice_streams):
            gone.difference_update(name for name, _ in found)
            self._append_missing(found)
            after = found[-1][0]
            yield
        self._append_missing((name, self._find(name)) for name in gone)

    def _recall(self) -> Iterator[None]:
        engine, offset = self._engine, 0
        while True:
            stream = engine.readers.find(REGISTRY, engine.clock.now())
            page = engine.readers.page(stream, offset)
            if page.start == page.end:
                return
            for message in _messages.decode(unpack(page.head.identity, engine.readers.read(stream, page))):
                self._learn(message)
            offset = page.end
            yield

    def _learn(self, message: Message) -> None:
        name = STREAM_ROOT + message.key.encode()
        self._message_count += 1
        if message.value is UNSET:
            self._known.pop(name, None)
        else:
            self._known[name] = message.value.created_at

    def _note(self, edit: Edit) -> None:
        """Note that a stream may have been created or deleted. `_flush` handles a batch of them a little later."""
        if not isinstance(edit, Drop) and not edit.created and not edit.head.deleted:
            return
        name = edit.head.identity.name
        if name.startswith(STREAM_ROOT):
            if name in self._known and (isinstance(edit, Drop) or edit.head.deleted):
                # A re-created stream may have the same time of creation: within a millisecond, or by a clock that was
                # set back. Without this mark the re-creation would go unnoticed.
                self._known[name] = GONE
            if not self._noted:
                self._engine.faults.later(Callback.REGISTRY, self._tuning.flush_secs, self._flush, failed=self._give_up)
            self._noted[name] = None

    def _flush(self) -> None:
        # The noted names stay: `_run_step` flushes them when the registry is filled.
        if not self._filled:
            return
        noted, self._noted = self._noted, {}
        try:
            self._append_missing((name, self._find(name)) for name in noted)
        except ProtocolError:
            self._give_up()
            return
        if self._message_count > 2 * len(self._known) + self._tuning.max_past_messages:
            self._replace()

    def _append_missing(self, streams: Iterable[tuple[bytes, Head | None]]) -> None:
        """Append the missing messages about some streams. A deleted stream has no head."""
        messages = [message for name, head in streams if name != REGISTRY for message in self._news(name, head)]
        if messages:
            self._engine.execute(Append(REGISTRY, self._engine.clock.now(), JSON, msgspec.json.encode(messages)))
            for message in messages:
                self._learn(message)
            self._engine.when_durable(self._engine.last_change, self._settle)

    def _settle(self, failure: Unavailable | None) -> None:
        """Fill the registry again later, if the last messages could not be stored."""
        if failure:
            self._give_up()

    def _give_up(self) -> None:
        if self._awake and not self._engine.failure:
            self._try_later()
        else:
            self._release()

    def _try_later(self) -> None:
        self._awake = self._filled = False
        self._release()
        self._engine.faults.later(Callback.REGISTRY, self._tuning.retry_secs, self.wake, failed=self._try_later)

    def _news(self, name: bytes, head: Head | None) -> Iterator[Message]:
        known = self._known.get(name)
        if head and head.identity.created_at == known:
            return
        key = name[len(STREAM_ROOT) :].decode()
        if known is not None:
            yield Message("stream", key, Operation("delete"))
        if head:
            content_type = head.identity.content_type.decode("latin-1")
            yield Message("stream", key, Operation("insert"), Registered(key, content_type, head.identity.created_at))

    def _find(self, name: bytes) -> Head | None:
        try:
            return self._engine.readers.find(name, self._engine.clock.now()).committed
        except ProtocolError:
            return None

    def _replace(self) -> None:
        """Replace the registry by a new one that lists only the streams that exist."""
        try:
            self._engine.execute(Delete(REGISTRY, self._engine.clock.now()))
            self._create()
        except ProtocolError:
            self._give_up()
            return
        self._known.clear()
        self._message_count, self._filled, self._filling, self._filled_by = 0, False, True, 0
        self._run_step(self._state_all())
