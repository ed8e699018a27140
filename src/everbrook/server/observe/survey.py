"""What a transport tells of its connections when it is asked. Nothing is counted for it while they work."""

from collections.abc import Iterable
from itertools import product
from typing import Protocol

from msgspec import Struct

from everbrook.protocol.path import BUCKET_ROOT
from everbrook.server.exchange import Deferred, Request
from everbrook.server.live import EventStream
from everbrook.server.observe.operations import LIVE, operation_of


class TransportSurvey(Struct):
    """The connections of a server at a moment, and how many there have been."""

    open: int = 0
    accepted: int = 0
    readers: dict[tuple[str, str], int] = {}
    """By what they do and the surface of what they read."""
    congested: int = 0
    behind: int = 0
    max_behind_bytes: int = 0
    buffered_bytes: int = 0

    def note_answers(self, answers: Iterable[tuple[Deferred, Request]]) -> None:
        """Count the readers among those who wait for an answer, and those among them who fell behind."""
        self.readers = dict.fromkeys(product(sorted(LIVE), ("base", "bucket")), 0)
        for deferred, request in answers:
            operation = operation_of(request)
            if operation in LIVE:
                self.readers[operation, "bucket" if request.path.startswith(BUCKET_ROOT) else "base"] += 1
            if isinstance(deferred, EventStream) and (behind_bytes := deferred.behind_bytes):
                self.behind += 1
                self.max_behind_bytes = max(self.max_behind_bytes, behind_bytes)


class Transport(Protocol):
    """Somebody who has connections."""

    def survey(self) -> TransportSurvey:
        """Tell of them."""


class _Nothing:
    def survey(self) -> TransportSurvey:
        survey = TransportSurvey()
        survey.note_answers(())
        return survey


NOTHING = _Nothing()
"""A transport that has none yet."""
