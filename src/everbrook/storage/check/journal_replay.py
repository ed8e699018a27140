"""Replaying the journal to check it: that each change can be read, and goes on where its streams were."""

from collections.abc import Mapping

from everbrook.protocol.change import Drop, Edit, Write
from everbrook.protocol.state import Head, Identity
from everbrook.storage.base_state import Opened
from everbrook.storage.check.base_reader import BaseReader
from everbrook.storage.check.report import DamagedStream, Notebook
from everbrook.storage.damage import Damage, DamageMark
from everbrook.storage.journal_scan import Recovered
from everbrook.storage.recovery import replay

NO_CHANGES = "a server takes no changes: a part of the journal is lost and it is not known which streams it was about"


class JournalReplay:
    """The streams as they become by the changes in the journal."""

    def __init__(self, base: BaseReader, notebook: Notebook, marks: Mapping[int, DamageMark]) -> None:
        """Begin with the base. `marks` are the streams that are known to be damaged, of which nothing more is taken."""
        self._base = base
        self._notebook = notebook
        self._marks = marks
        self._lost: set[int] = set()
        self.heads: dict[int, Head | None] = {}
        """The streams that the journal has changed; None for those that it dropped."""
        self.forks: dict[int, list[Identity]] = {}
        """The forks that it made, by their sources."""

    def take(self, recovered: Recovered, opened: Opened | None, boot: str) -> None:
        """Follow the journal, as a server does when it starts."""
        recovered = self._prefix(recovered, opened, boot)
        self._notebook.tally.records = len(recovered.records)
        replay(recovered, self.head, self._follow, self._lose, self._refuse)
        for damage in recovered.unknown:
            self._notebook.damage(damage.problem, damage.place)
        if recovered.unknown:
            self._notebook.refuse(NO_CHANGES)
        if recovered.torn:
            torn = recovered.torn
            self._notebook.remark(
                f"{torn.path.name} ends with {len(torn.data)} bytes of a write that a crash cut off, from byte "
                f"{torn.position} on; it was never acknowledged, and the next start sets it aside"
            )

    def _prefix(self, recovered: Recovered, opened: Opened | None, boot: str) -> Recovered:
        """Where the journal was not synced and the machine was restarted, its end may be lost: that is no damage."""
        if opened is None or opened.kept_in(boot):
            return recovered
        if recovered.damages:
            self._notebook.remark("the machine has been restarted since the last changes; some of them are lost")
        return recovered.written_prefix()

    def _refuse(self, number: int, error: Exception) -> None:
        self._notebook.damage(f"change {number} can't be read, though its checksum is right: {error}")
        self._notebook.refuse("a server does not start: a change in the journal can't be read")

    def head(self, incarnation: int) -> Head | None:
        """Give a stream as the journal leaves it."""
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
            return "creates a stream that is there" if before else None
        if before is None:
            return "is about a stream that nothing created"
        if before.tail != write.head.tail - len(write.data):
            return f"does not go on where the stream ended, at {before.tail}"
        return "has messages that do not fill it" if write.data and write.ends[-1:] != (write.head.tail,) else None

    def _lose(self, damage: Damage) -> None:
        """Note streams of which a change is lost: what is known of them ends here."""
        if not damage.streams:
            self._notebook.damage(damage.problem, damage.place)
        for incarnation in damage.streams:
            if incarnation in self._lost or incarnation in self._marks:
                continue
            self._lost.add(incarnation)
            head = self.head(incarnation)
            reason = f"{damage.problem}, and what follows it"
            stream = DamagedStream.of(incarnation, head, head.tail if head else 0, reason)
            self._notebook.damaged_stream(stream, damage.place)
