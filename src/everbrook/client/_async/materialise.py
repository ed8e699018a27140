"""A materialised state: it follows a stream of changes, and holds the current value per type and key.

    async with stream.materialise() as state:
        state["user"]["1"]

The rule: once entered, it is as current as the last page of the stream. If it can't be kept current, every access
raises the error instead of returning old values.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

import msgspec

from everbrook.client._async.concurrency import Condition, Task, spawn
from everbrook.client.content import JSON, Kind, kind_of
from everbrook.client.errors import ChangesMissed, StateEnded
from everbrook.client.models import Snapshot
from everbrook.client.page import BEGINNING, Page
from everbrook.client.read_state import Mode
from everbrook.client.schemas import Schemas
from everbrook.client.timeouts import DEFAULT_TUNING, ClientTuning
from everbrook.protocol.entities import Entities, State, format_snapshot, parse_snapshot
from everbrook.protocol.json_text import decode_mended, split_array
from everbrook.protocol.state_changes import InvalidChange, Reset, StateMessage, parse_message

if TYPE_CHECKING:
    from everbrook.client._async.stream import AsyncStream


class AsyncChanges:
    """An iterator over the changes that are applied to a state after it was made. It ends when the state ends."""

    def __init__(self, until: Callable[[Callable[[], bool]], Awaitable[None]], max_waiting: int) -> None:
        """Wait with `until`, which returns when its predicate holds or the state has ended.

        At most `max_waiting` changes are queued, so that an iterator that nobody reads does not fill the memory.
        """
        self._until = until
        self._max_waiting = max_waiting
        self._waiting: deque[StateMessage] = deque()
        self._missed = False

    def push(self, change: StateMessage) -> None:
        """Queue a change that was applied."""
        if len(self._waiting) >= self._max_waiting:
            self._missed = True
        if not self._missed:
            self._waiting.append(change)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StateMessage:
        if not self._waiting:
            await self._until(lambda: bool(self._waiting) or self._missed)
        if self._waiting:
            return self._waiting.popleft()
        if self._missed:
            raise ChangesMissed(
                f"more than {self._max_waiting} changes were waiting, so later ones were dropped: read the state anew"
            )
        raise StopAsyncIteration


T = TypeVar("T")


class AsyncMaterialiser(Mapping[str, Entities]):
    """The current values by type and key. A type without entities is not in it; `state[type]` is then empty."""

    def __init__(
        self,
        stream: "AsyncStream[Any]",
        *,
        types: Mapping[str, Any] | None = None,
        on_invalid: Callable[[InvalidChange], object] | None = None,
        mode: Mode = "auto",
        tuning: ClientTuning = DEFAULT_TUNING,
    ) -> None:
        """Hold the state of a JSON stream, once entered.

        `types` names the class into which the values of a type are decoded. A message that is not a change, or does not
        fit its class, ends the state with `InvalidChange`; with `on_invalid` it is passed to that function and skipped.
        """
        self.offset = BEGINNING
        """The changes before this offset are applied."""
        self.closed = False
        """Whether the stream is closed, so that the state is final."""
        self._stream = stream
        self._state = State(Schemas(types or {}))
        self._on_invalid = on_invalid
        self._tuning = tuning
        self._reader = stream.follow(mode=mode, on_snapshot=self._restore)
        self._task: Task | None = None
        self._failure: Exception | None = None
        self._current = self._ended = False
        self._moved = Condition()
        # Held while a page is applied, so that no reader sees a part of it.
        self._applying = RLock()
        # Weak, so that an iterator that was dropped before its end stops collecting changes.
        self._listeners: WeakSet[AsyncChanges] = WeakSet()

    async def __aenter__(self) -> Self:
        """Read the stream up to its end, and follow it from then on."""
        if self._task is not None:
            raise RuntimeError("a state can be entered only once: make another one")
        self._task = spawn(self._follow, name=f"state of {self._stream.name}")
        try:
            await self._until(lambda: self._current)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop following. The values stay as they are."""
        await self._reader.close()
        if self._task is not None:
            self._task.cancel()
        async with self._moved:
            # A thread can't be cancelled while it waits for a response: it ends with that, and is not waited for.
            await self._moved.wait_until(lambda: self._ended, self._tuning.state_close_secs)
            self._ended = True
            self._moved.notify_all()

    def __getitem__(self, type_: str) -> Entities:
        return self._now()[type_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __contains__(self, type_: object) -> bool:
        return type_ in self._now()

    def __repr__(self) -> str:
        counts = ", ".join(f"{type_}: {len(entities)}" for type_, entities in self._state.items())
        return f"<{type(self).__name__} {self._stream.url} at {self.offset} ({counts})>"

    def snapshot(self) -> Mapping[str, Mapping[str, Any]]:
        """Copy the values as they are now."""
        with self._applying:
            return self._now().snapshot()

    async def publish(self, *, keep_history: bool = False) -> str:
        """Publish the state as the stream's snapshot, and return its offset.

        New followers begin with it. The messages before it are cut from the stream, unless `keep_history` is set.
        """
        with self._applying:
            data, offset = format_snapshot(self._now()), self.offset
        await self._stream.publish(data, offset=offset, keep_history=keep_history, incarnation=self._reader.incarnation)
        return offset

    def changes(self) -> AsyncChanges:
        """Iterate over the changes that are applied from now on: `Set`, `Remove`, `Append`, and control messages."""
        listener = AsyncChanges(self._until, self._tuning.max_waiting_changes)
        with self._applying:
            self._listeners.add(listener)
        return listener

    async def wait_for(self, predicate: Callable[[Self], T], timeout_secs: float | None = None) -> T:
        """Wait until `predicate` returns a true value for the state, and return that value."""
        found: list[T] = []

        def holds() -> bool:
            with self._applying:
                found[:] = [value] if (value := predicate(self)) else []
            return bool(found)

        await self._until(holds, timeout_secs)
        if found:
            return found[0]
        if self._ended:
            raise StateEnded("the awaited change can't arrive any more: the stream or the state is closed")
        raise TimeoutError(f"the awaited change did not come within {timeout_secs} s")

    async def wait_for_offset(self, offset: str, timeout_secs: float | None = None) -> None:
        """Wait until everything before an offset is applied. With the offset of an append: read your own write."""
        await self.wait_for(lambda _: self.offset >= offset, timeout_secs)

    async def wait_for_txid(self, txid: str, timeout_secs: float | None = None) -> None:
        """Wait until a change with that `txid` is applied, with the page that it came in."""
        await self.wait_for(lambda _: self._state.seen(txid), timeout_secs)

    async def _until(self, predicate: Callable[[], bool], timeout_secs: float | None = None) -> None:
        """Return when the predicate holds, when the state has ended, or after the timeout."""
        async with self._moved:
            await self._moved.wait_until(lambda: predicate() or self._ended, timeout_secs)
        self._now()

    def _now(self) -> State:
        if self._failure is not None:
            raise self._failure
        return self._state

    async def _follow(self) -> None:
        try:
            async with aclosing(self._reader.pages()) as pages:
                async for page in pages:
                    await self._take(page)
        except Exception as error:  # noqa: BLE001 - raised to whoever looks or waits
            self._failure = error
        finally:
            async with self._moved:
                self._ended = True
                self._moved.notify_all()

    async def _take(self, page: Page) -> None:
        if kind_of(page.content_type) is not Kind.JSON:
            raise ValueError(f"a state needs a stream of {JSON}, but {self._stream.url} has {page.content_type}")
        with self._applying:
            for number, message in enumerate(_messages(page.data)):
                try:
                    self._apply(parse_message(_value(message)))
                except InvalidChange as error:
                    self._refuse(error, partial(_position, page, number))
            self.offset, self.closed = page.next_offset, page.closed
        async with self._moved:
            self._current |= page.up_to_date
            self._moved.notify_all()

    async def _restore(self, snapshot: Snapshot) -> None:
        """Start over from a snapshot, because the changes before it are no longer retained."""
        with self._applying:
            self._apply(Reset())
            for change in parse_snapshot(snapshot.data):
                try:
                    self._apply(change)
                except InvalidChange as error:
                    self._refuse(error, lambda: f"the snapshot at {snapshot.offset}")
            self.offset = snapshot.offset
        async with self._moved:
            self._moved.notify_all()

    def _apply(self, change: StateMessage) -> None:
        self._state.apply(change)
        for listener in self._listeners:
            listener.push(change)

    def _refuse(self, error: InvalidChange, where: Callable[[], str]) -> None:
        if self._on_invalid is None:
            error.add_note(f"{where()} of {self._stream.url}")
            raise error
        self._on_invalid(error)


def _messages(data: bytes) -> list[Any]:
    """Decode a page; if one of its messages can't be decoded, give all of them as raw bytes."""
    try:
        messages: list[Any] = decode_mended(msgspec.json.decode, data or b"[]")
    except ValueError:
        return list(split_array(data))
    return messages


def _value(message: Any) -> Any:
    try:
        return decode_mended(msgspec.json.decode, bytes(message)) if isinstance(message, msgspec.Raw) else message
    except ValueError as error:
        raise InvalidChange(f"a change must be JSON that can be read, got {bytes(message)[:64]!r}: {error}") from error


def _position(page: Page, number: int) -> str:
    return f"the message at {page.offset_after(number) or f'{page.offset} or after it'}"
