"""What a storage that keeps a journal tells of it: its size, and how it is folded into what stays."""


class Checkpoints:
    """Counts the checkpoints of a store. Written by its threads, read by whoever watches: plain numbers."""

    __slots__ = ("done", "failed", "journal_bytes", "last_secs", "secs")

    def __init__(self) -> None:
        self.journal_bytes = 0
        self.done = 0
        self.failed = 0
        self.secs = 0.0
        self.last_secs = 0.0

    def note(self, secs: float, *, failed: bool = False) -> None:
        """Count a checkpoint that took so long."""
        self.done += not failed
        self.failed += failed
        self.secs += secs
        self.last_secs = secs
