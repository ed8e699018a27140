"""Limits: the bounds of one stream and of all streams together. A refusal comes before anything is stored."""

from msgspec import Struct

from everbrook.engine.records import is_own
from everbrook.protocol.errors import ForkTooDeep, MemoryFull, StreamFull, TooManyProducers, WakeStreamFull, quoted
from everbrook.protocol.path import bucket_of
from everbrook.protocol.state import Head, Write
from everbrook.storage.api import Storage

UNLIMITED = 2**63
# An upper bound of the memory that a write takes: this factor for its bytes, if they are the smallest messages, and a
# constant for a new stream.
MAX_COST_RATIO = 16
MAX_COST_BYTES = 4096
# The memory of loaded streams and their producers, in a storage that can load them again.
MAX_LOADED_BYTES = 256 * 1024 * 1024
PRODUCER_IDLE_MS = 7 * 24 * 3600 * 1000


class Limits(Struct, frozen=True):
    """Bounds that an operator sets."""

    max_memory_bytes: int = UNLIMITED
    max_bucket_memory_bytes: int = UNLIMITED
    max_loaded_bytes: int = MAX_LOADED_BYTES
    max_stream_bytes: int = UNLIMITED
    max_total_bytes: int = UNLIMITED
    max_bucket_bytes: int = UNLIMITED
    max_bucket_streams: int = UNLIMITED
    max_producers_per_stream: int = UNLIMITED
    max_subscriptions: int = UNLIMITED
    max_wake_stream_bytes: int = UNLIMITED
    max_fork_depth: int = UNLIMITED
    max_page_bytes: int = 16 << 20
    max_open_blobs: int = UNLIMITED
    producer_idle_ms: int | None = None

    def check_body(self, name: bytes, body: bytes) -> None:
        """Refuse a body that is larger than a whole stream may be, before it is parsed."""
        if len(body) > self.max_stream_bytes and not is_own(name):
            raise StreamFull(f"a stream holds at most {self.max_stream_bytes} bytes, the body alone has {len(body)}")

    def check(self, write: Write, storage: Storage, *, of_tenant: bool = True) -> None:
        """Refuse a write that would outgrow its stream or the memory.

        A change that adds nothing passes, even if a limit is exceeded already: a close, a cut, a deletion, an expiry.
        """
        if not write.data and not write.created:
            return
        if write.data and write.head.tail > self.max_stream_bytes and of_tenant:
            self._check_stream(write.head)
        # Far from the limit the upper bound is enough, which is cheaper than the exact cost.
        if storage.used_bytes + MAX_COST_RATIO * len(write.data) > self.roomy_bytes:
            self.check_memory(write.head.identity.name, storage.cost_bytes(write), storage)

    @property
    def roomy_bytes(self) -> int:
        """How much memory may be used so that a write has room if `MAX_COST_RATIO` times its bytes are added."""
        return min(self.max_memory_bytes, self.max_bucket_memory_bytes) - MAX_COST_BYTES

    def check_wake(self, write: Write, storage: Storage) -> None:
        """Refuse a wake event that would outgrow its wake stream or the memory. The other limits are for tenants."""
        if (size := _own_bytes(write.head)) > self.max_wake_stream_bytes:
            raise WakeStreamFull(
                f"a wake stream holds at most {self.max_wake_stream_bytes} bytes, this would make {size}: "
                "cut or replace it, or raise limits.max_wake_stream_bytes"
            )
        self.check(write, storage, of_tenant=False)

    def check_memory(self, name: bytes, cost_bytes: int, storage: Storage) -> None:
        """Refuse more bytes than memory has room for, or than the bucket of a name may hold in memory."""
        if cost_bytes and storage.used_bytes + cost_bytes > self.max_memory_bytes:
            raise MemoryFull(f"all streams together hold at most {self.max_memory_bytes} bytes of memory")
        bucket_id, most = bucket_of(name), self.max_bucket_memory_bytes
        if cost_bytes and bucket_id is not None and storage.bucket_bytes(bucket_id) + cost_bytes > most:
            raise MemoryFull(f"the bucket {quoted(bucket_id)} holds at most {most} bytes of memory")

    def _check_stream(self, head: Head) -> None:
        size = _own_bytes(head)
        if size > self.max_stream_bytes and not is_own(head.identity.name):
            raise StreamFull(f"a stream holds at most {self.max_stream_bytes} bytes, this would make {size}")

    def check_fork_depth(self, depth: int) -> None:
        """Refuse a fork with `depth` streams before it in its chain. Deeper forks that exist stay readable."""
        if depth > self.max_fork_depth:
            raise ForkTooDeep(
                f"a fork has at most {self.max_fork_depth} streams before it in its chain, this one would have "
                f"{depth}; fork one of those, or write the messages to a new stream"
            )

    def check_producers(self, known: int) -> None:
        """Refuse one more producer on a stream that remembers as many as it may."""
        if known >= self.max_producers_per_stream:
            raise TooManyProducers(f"a stream remembers at most {self.max_producers_per_stream} producers")


def _own_bytes(head: Head) -> int:
    """Return the size of a stream without inherited and without cut bytes."""
    return head.tail - max(head.identity.first_own_offset, head.kept.earliest)
