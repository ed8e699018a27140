"""Reading a store back through the storage's interface, and comparing it with the ledger."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from hashlib import sha256
from random import Random
from typing import TypeVar

from everbrook.protocol import Snapshot
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import Record, Storage
from soak.flips.justification import Justified
from soak.flips.ledger import Ledger, State, Stream

Result = TypeVar("Result")

PIECES = 12
READ_BYTES = 4096
# Far more than the workload makes.
MANY = 10_000


class Reader:
    """Compares what a storage shows with a state of the ledger. Whatever is wrong goes to `violations`."""

    def __init__(
        self, storage: Storage, ledger: Ledger, justified: Justified, random: Random, lost: frozenset[int] = frozenset()
    ) -> None:
        """Compare with the last state, or an earlier one that is justified. `lost` are streams known to be lost."""
        self._storage = storage
        self._ledger = ledger
        self._justified = justified
        self._random = random
        self._lost = lost
        self.violations: list[str] = []
        self.damaged: dict[bytes, str] = {}
        """Names of which the storage said that they are damaged."""
        self.wrong_blobs: list[tuple[int, int]] = []
        self.state_number = ledger.last

    def _ask(self, name: bytes, ask: Callable[[], Result]) -> Result | None:
        """Ask the storage. That it is damaged is an answer; any other exception is none."""
        try:
            return ask()
        except StreamDamaged as error:
            self.damaged.setdefault(name, str(error))
        except Exception as error:  # noqa: BLE001 - none may leave the storage
            self._blame(name, f"raised {type(error).__name__}: {error}")
            self.damaged.setdefault(name, "")
        return None

    def _blame(self, name: bytes, what: str) -> None:
        self.violations.append(f"{name.decode()}: {what}")

    def run(self) -> None:
        """Read everything."""
        names = self._ledger.names()
        records = {name: self._ask(name, partial(self._storage.load, name)) for name in names}
        state = self._shown_state(records)
        for name in names:
            self._compare(name, records[name], state.get(name))
        self._compare_lists(state)

    def _shown_state(self, records: dict[bytes, Record | None]) -> State:
        """Choose the state that is shown: the last one, unless the end of the journal may be gone."""
        states = self._ledger.states

        def differences(number: int) -> int:
            heads = {name: stream.head for name, stream in states[number].items()}
            return sum(heads.get(name) != (record.head if record else None) for name, record in records.items())

        self.state_number = min(range(self._ledger.last, self._justified.first_state - 1, -1), key=differences)
        return states[self.state_number]

    # Streams

    def _compare(self, name: bytes, record: Record | None, expected: Stream | None) -> None:
        if record is None:
            if expected and name not in self.damaged and not self._is_lost(expected.incarnation):
                self._blame(name, "the stream is missing")
            return
        incarnation = record.head.identity.incarnation
        stream = expected
        if expected is None or record.head != expected.head or record.producers != expected.producers:
            stream = self._version(record)
            if not record.damage and not self._refused(incarnation):
                self._blame(name, self._difference(record, expected))
        if record.damage:
            self.damaged.setdefault(name, record.damage.reason)
        if stream:
            self._read(name, stream)
        elif record.damage is None or record.head.tail:
            self._blame(name, f"the stream never had this head: {record.head}")
        if name in self.damaged and not self._justified.allows(incarnation) and name not in self._justified.names:
            self._blame(name, f"more loss than there is: {self.damaged[name]}")

    def _refused(self, incarnation: int) -> bool:
        """Tell whether the storage says of itself that it has lost changes, and this stream may be among them."""
        return bool(self._storage.refusal) and self._justified.allows(incarnation)

    def _is_lost(self, incarnation: int) -> bool:
        """Tell whether the storage says that it has lost a stream of which it does not know the name."""
        named = any(incarnation in damage.streams for damage in self._storage.damages)
        return self._refused(incarnation) or named or incarnation in self._lost

    def _version(self, record: Record) -> Stream | None:
        """Find what a stream was when it had a head. If changes are missing, that of its tail has to do."""
        versions = list(self._ledger.versions(record.head.identity.incarnation))
        refused = self._refused(record.head.identity.incarnation)
        found = (stream for stream in versions if stream.head == record.head)
        similar = (stream for stream in versions if refused and stream.head.tail == record.head.tail)
        return next(found, None) or next(similar, None)

    def _difference(self, record: Record, expected: Stream | None) -> str:
        if expected is None:
            return "a stream that was dropped is back"
        if record.head != expected.head:
            return f"another head, without a word: {record.head}, not {expected.head}"
        return f"other producers, without a word: {record.producers}, not {expected.producers}"

    # Bytes and messages

    def _read(self, name: bytes, stream: Stream) -> None:
        """Read a stream, whole and in pieces, also the part that only its forks need."""
        start, tail, storage, incarnation = stream.retained, stream.head.tail, self._storage, stream.incarnation
        for fork in self._ledger.forks(self._ledger.state, incarnation):
            start = min(start, max(stream.first, fork.head.identity.first_kept.earliest))
        for first, end in self._pieces(stream, start, tail):
            known = self.damaged.pop(name, None)
            data = self._ask(name, partial(storage.read, incarnation, first, end))
            if data is not None and data != stream.read(first, end):
                self._blame(name, f"other bytes from {first} to {end}")
            if data is None and not self._may_be_unreadable(incarnation, first, end):
                self._blame(name, f"intact bytes from {first} to {end} can't be read: {self.damaged[name]}")
            if known is not None:
                self.damaged[name] = known
        self._read_index(name, stream, start)
        snapshot = stream.head.kept.snapshot
        if snapshot and snapshot.blob:
            self._read_blob(name, incarnation, snapshot)

    def _pieces(self, stream: Stream, start: int, tail: int) -> list[tuple[int, int]]:
        """Choose ranges: everything, single messages, and some that no boundary knows."""
        if start >= tail:
            return []
        ends = [end for end in stream.ends if end > start]
        messages = list(zip((start, *ends), ends, strict=False))
        pieces = [(start, tail), *self._random.sample(messages, min(PIECES, len(messages)))]
        for _ in range(3):
            first = self._random.randrange(start, tail)
            pieces.append((first, self._random.randrange(first, tail) + 1))
        return pieces

    def _may_be_unreadable(self, incarnation: int, first: int, end: int) -> bool:
        """Tell whether a range has a damaged block. Blocks are verified whole."""
        justified = self._justified
        if justified.anything or incarnation in justified.streams:
            return True
        return any(start < end and first < stop for start, stop in justified.blocks.get(incarnation, ()))

    def _read_index(self, name: bytes, stream: Stream, start: int) -> None:
        storage, incarnation, tail = self._storage, stream.incarnation, stream.head.tail
        expected = stream.messages(start, tail)
        found = self._ask(name, lambda: storage.messages(incarnation, start, tail))
        if found is not None and list(zip(found.ends, found.times, strict=True)) != expected:
            self._blame(name, "other messages")
        ends = [end for end, _ in expected]
        if not ends:
            return
        place = self._random.randrange(len(ends))
        before = [start, *ends][place]
        times, appends = dict(expected), [end for end in stream.append_ends if end >= ends[place]]
        asked: list[tuple[str, Callable[[], object], object]] = [
            ("seek", lambda: storage.seek(incarnation, start, place + 1), (ends[place], 0)),
            ("seek back", lambda: storage.seek(incarnation, tail, place - len(ends)), (before, 0)),
            ("seek too far", lambda: storage.seek(incarnation, before, len(ends) - place + 2), (tail, 2)),
            ("boundary after", lambda: storage.index_at(incarnation, before).boundary_after(before), ends[place]),
            ("boundary before", lambda: storage.boundary_at_or_before(incarnation, ends[place]), ends[place]),
            ("append end", lambda: storage.index_at(incarnation, before).append_end(before), appends[0]),
            ("time", lambda: storage.index_at(incarnation, before).time_at(before), times[ends[place]]),
        ]
        for what, ask, right in asked:
            answer = self._ask(name, ask)
            if answer is not None and answer != right:
                self._blame(name, f"{what} gives {answer}, not {right}")

    def _read_blob(self, name: bytes, incarnation: int, snapshot: Snapshot) -> None:
        known, blob = name in self.damaged, (snapshot.owner, snapshot.blob)
        digest = self._ask(name, lambda: self._digest_of(snapshot))
        if digest is None:
            if blob not in self._justified.blobs and not self._justified.allows(incarnation):
                self._blame(name, f"its snapshot can't be read: {self.damaged[name]}")
            self.wrong_blobs.append(blob)
            if not known:
                del self.damaged[name]
            return
        if digest != snapshot.digest:
            self._blame(name, "another snapshot")

    def _digest_of(self, snapshot: Snapshot) -> bytes:
        digest = sha256()
        with closing(self._storage.blobs.open(snapshot.owner, snapshot.blob, snapshot.size)) as reader:
            while data := reader.read(READ_BYTES):
                digest.update(data)
        return digest.digest()

    # Lists

    def _compare_lists(self, state: State) -> None:
        """Compare names, counts, forks and lifetimes, unless something is said to be damaged."""
        storage = self._storage
        scanned = self._ask(b"*", lambda: storage.scan(b"", b"", MANY))
        counted = self._ask(b"*", lambda: storage.count(b""))
        mortal = self._ask(b"*", lambda: storage.mortal(0, MANY))
        # A name without a head is one that is said to be damaged.
        self.damaged |= {name: "in the list" for name, head in scanned or () if head is None and name not in state}
        names = {name for name, _ in scanned or ()}
        lost = {name for name, stream in state.items() if self._is_lost(stream.incarnation)}
        unnamed = (names ^ set(state)) - self.damaged.keys() - lost
        if scanned is not None and unnamed and not storage.refusal:
            self._blame(b"*", f"other names in the list: {sorted(unnamed)}")
        headless = {name for name, head in scanned or () if head is None} - self.damaged.keys()
        if headless:
            self._blame(b"*", f"names without a head in the list: {sorted(headless)}")
        if self.damaged or lost or storage.refusal:
            return
        if counted != len(state):
            self._blame(b"*", f"counts {counted} names, not {len(state)}")
        lasting = sorted(stream.incarnation for stream in state.values() if stream.head.identity.mortal)
        if [head.identity.incarnation for head in mortal or ()] != lasting:
            self._blame(b"*", "other streams that time acts on")
        for name, stream in state.items():
            forks = self._ask(name, partial(storage.fork_count, stream.incarnation))
            record = self._ask(name, partial(storage.load, name))
            if record and record.damage:
                # Where the forks are damaged, there is at least one.
                self.damaged[name] = record.damage.reason
            elif forks is not None and forks != len(self._ledger.forks(state, stream.incarnation)):
                self._blame(name, f"has {forks} forks, not {len(self._ledger.forks(state, stream.incarnation))}")
