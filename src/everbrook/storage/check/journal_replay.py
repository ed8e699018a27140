"""The replay of the journal for a check: verifies that each change can be parsed and continues its streams."""

from collections.abc import Mapping

from everbrook.protocol.state import Drop, Edit, Head, Identity, Write
from everbrook.storage.base_state import Opened
from everbrook.storage.check.base_reader import BaseReader
from everbrook.storage.check.report import DamagedStream, Findings
from everbrook.storage.damage import Damage, DamageMark
from everbrook.storage.journal_scan import Recovered
from everbrook.storage.recovery import replay

NO_CHANGES = "a server takes no changes: a part of the journal is lost, and the streams that it changed are unknown"


class JournalReplay:
    """The heads of the streams after the changes in the journal."""

    def __init__(self, base: BaseReader, findings: Findings, marks: Mapping[int, DamageMark]) -> None:
        """Begin with the heads in the base. The changes of streams in `marks` are ignored: they are damaged already."""
        self._base = base
        self._findings = findings
        self._marks = marks
        self._lost: set[int] = set()
        self.heads: dict[int, Head | None] = {}
        """The heads of the streams that the journal has changed; None for dropped ones."""
        self.forks: dict[int, list[Identity]] = {}
        """The forks that the journal has made, by their sources."""

    def take(self, recovered: Recovered, opened: Opened | None, boot: str) -> None:
        """Replay the journal as a starting server does."""
        recovered = self._prefix(recovered, opened, boot)
        self._findings.tally.records = len(recovered.records)
        replay(recovered, self.head, self._follow, self._lose, self._refuse)
        for damage in recovered.unknown:
            self._findings.damage(damage.problem, damage.place)
        if recovered.unknown:
            self._findings.refuse(NO_CHANGES)
        if recovered.torn:
            torn = recovered.torn
            self._findings.remark(
                f"{torn.path.name} ends with {len(torn.data)} bytes of a write that a crash cut off, from byte "
                f"{torn.position} on; it was never acknowledged, and the next start sets it aside"
            )

    def _prefix(self, recovered: Recovered, opened: Opened | None, boot: str) -> Recovered:
        """Cut an unsynced journal before its first missing change after the machine crashed: this loss is no damage."""
        if opened is None or opened.kept_in(boot):
            return recovered
        if recovered.damages:
            self._findings.remark("the machine has been restarted since the last changes; some of them are lost")
        return recovered.written_prefix()

    def _refuse(self, number: int, error: Exception) -> None:
        self._findings.damage(f"change {number} can't be read, though its checksum is right: {error}")
        self._findings.refuse("a server does not start: a change in the journal can't be read")

    def head(self, incarnation: int) -> Head | None:
        """Return the head of a stream after the journal."""
        return self.heads[incarnation] if incarnation in self.heads else self._base.head(incarnation)

    def _follow(self, number: int, edit: Edit) -> None:
        identity = edit.head.identity
        if isinstance(edit, Drop):
            self.heads[identity.incarnation] = None
            return
        if identity.incarnation in self._lost or identity.incarnation in self._marks:
            return
        problem = self._problem_of(edit)
        if problem:
            place = f"change {number} of the journal"
            self._lose(Damage(place, f"{place} {problem}", (identity.incarnation,)))
            return
        if edit.created and identity.fork:
            self.forks.setdefault(identity.fork.source_incarnation, []).append(identity)
        self.heads[identity.incarnation] = edit.head

    def _problem_of(self, write: Write) -> str | None:
        before = self.head(write.head.identity.incarnation)
        if write.created:
            return "creates a stream that exists" if before else None
        if before is None:
            return "edits a stream that does not exist"
        if before.tail != write.head.tail - len(write.data):
            return f"begins at {write.head.tail - len(write.data)}, and the tail of the stream is {before.tail}"
        return (
            "has messages that do not fill its bytes" if write.data and write.ends[-1:] != (write.head.tail,) else None
        )

    def _lose(self, damage: Damage) -> None:
        """Report the streams that have lost a change as damaged from their present tail on."""
        if not damage.streams:
            self._findings.damage(damage.problem, damage.place)
        for incarnation in damage.streams:
            if incarnation in self._lost or incarnation in self._marks:
                continue
            self._lost.add(incarnation)
            head = self.head(incarnation)
            reason = f"{damage.problem}, and what follows it"
            stream = DamagedStream.of(incarnation, head, head.tail if head else 0, reason)
            self._findings.damaged_stream(stream, damage.place)
