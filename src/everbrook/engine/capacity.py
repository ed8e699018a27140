"""Capacity: refuses a change that there is no room for, in a stream, in memory, or in the quota of a bucket."""

from everbrook.engine.limits import Limits
from everbrook.engine.quotas import Quotas
from everbrook.engine.streams import Streams
from everbrook.protocol.commands import Command, Create
from everbrook.protocol.errors import TooManyProducers
from everbrook.protocol.state import Change, Write
from everbrook.protocol.subscriptions.subscription import SubscriptionCommand, WakeUp
from everbrook.storage.api import Storage
from everbrook.storage.memory import producer_bytes


class Capacity:
    """Checks a change against the limits and the quotas, after the decision and before it is submitted."""

    def __init__(self, storage: Storage, limits: Limits, streams: Streams, quotas: Quotas) -> None:
        self._storage = storage
        self.limits = limits
        self._streams = streams
        self._quotas = quotas

    def reserve(self, command: Command | SubscriptionCommand, change: Change) -> None:
        """Count the change of a command for its quotas, or refuse it."""
        if command.__class__ is WakeUp:
            self._reserve_wake(change)
            return
        # Only the last edit adds data: the edits before it remove streams.
        edit = change[-1]
        if isinstance(edit, Write):
            self.limits.check(edit, self._storage)
            # A close without data adds no more than one producer to a stream.
            if edit.producer_id is not None and edit.data:
                self._check_producer(edit, edit.producer_id)
        if command.__class__ is Create:
            self._check_fork(command)
        if self._quotas.active:
            self._quotas.follow(change, self._quotas.check(change))

    def _check_fork(self, command: Create) -> None:
        """Refuse a fork that would be too deep."""
        source = self._streams.stream(command.fork.source) if command.fork else None
        if source:
            self.limits.check_fork_depth(source.fork_depth + 1)

    def _check_producer(self, write: Write, producer_id: bytes) -> None:
        """Refuse a write by a new producer, if its stream has too many or there is no memory for it."""
        stream = self._streams.stream(name := write.head.identity.name)
        if stream and producer_id not in stream.producers:
            self.limits.check_producers(len(stream.producers) - len(write.forgotten))
            self._check_new_producer(name, producer_bytes(producer_id, write.producer))

    def _check_new_producer(self, name: bytes, size: int) -> None:
        """Refuse a new producer if memory is short, or if its bucket has too many for its quota."""
        if self._streams.lacks_memory_for_producers(name):
            raise TooManyProducers("the server has no memory for more producers of this bucket now")
        if self._quotas.active:
            self._quotas.check_producers(name, self._streams.producer_bytes.beside(name) + size)

    def _reserve_wake(self, change: Change) -> None:
        """Refuse a wake that its wake stream has no room for. Its bucket's quota counts it, but does not refuse it."""
        record, *others = change
        if isinstance(record, Write):
            self.limits.check(record, self._storage)
        for edit in others:
            if isinstance(edit, Write):
                self.limits.check_wake(edit, self._storage)
        if self._quotas.active:
            self._quotas.follow(change, self._quotas.measure(change))
