"""Slots: how many deliveries are under way at a time, shared fairly by the buckets that they are of.

A quarter of the slots is kept for buckets that hold none. For the others the rule is that of dynamic thresholds: a
bucket takes another slot only while it holds fewer than are free. One bucket gets at most half of them, the next one
half of what is left. So a few buckets that keep theirs for long leave some to others, and it takes many to hold all.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A number of slots. Buckets that wait for one take turns."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._kept = count // 4
        self._held = Counter[str]()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, bucket: str) -> AsyncIterator[None]:
        """Hold a slot for a bucket, as soon as it is its turn."""
        if not self._may_take(bucket):
            await self._wait(bucket)
        else:
            self._take(bucket)
        try:
            yield
        finally:
            self._release(bucket)

    def _may_take(self, bucket: str) -> bool:
        held = self._held[bucket]
        return held < self._free - (self._kept if held else 0)

    def _take(self, bucket: str) -> None:
        self._free -= 1
        self._held[bucket] += 1

    async def _wait(self, bucket: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(bucket, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # It was given the slot just before.
                self._release(bucket)
            raise

    def _release(self, bucket: str) -> None:
        self._free += 1
        self._held[bucket] -= 1
        if not self._held[bucket]:
            del self._held[bucket]
        if turns := self._waiting.pop(bucket, None):
            # It has just had its turn.
            self._waiting[bucket] = turns
        while (next_bucket := next(filter(self._may_take, self._waiting), None)) is not None:
            self._give(next_bucket)

    def _give(self, bucket: str) -> None:
        """Give the first who still waits a slot, and put the bucket behind the others."""
        turns = self._waiting.pop(bucket)
        turn = turns.popleft()
        if turns:
            self._waiting[bucket] = turns
        if not turn.cancelled():
            self._take(bucket)
            turn.set_result(None)
