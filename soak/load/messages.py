"""Messages of the load: who sent each and which of theirs it is, so that every reader can check all it sees."""

from collections import Counter

WIDTH = 13
TOLD = 5


def format_message(producer: int, number: int) -> bytes:
    """Write a message. All have the same width, so they are cheap to take apart."""
    return b"%03d-%08d;" % (producer, number)


class Findings:
    """What went wrong, counted by kind, the first few in words."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.words: list[str] = []

    def add(self, kind: str, words: str) -> None:
        """Note one more."""
        self.counts[kind] += 1
        if len(self.words) < TOLD:
            self.words.append(f"{kind}: {words}")


class Sequel:
    """What one reader has seen of a stream: of each producer all messages, once, in order."""

    __slots__ = ("findings", "next", "seen")

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.next: dict[int, int] = {}
        self.seen = 0

    def take(self, payload: bytes) -> None:
        """Take the next messages of the stream."""
        expected = self.next
        for at in range(0, len(payload), WIDTH):
            producer, number = int(payload[at : at + 3]), int(payload[at + 4 : at + 12])
            wanted = expected.get(producer, 0)
            if number != wanted:
                kind = "lost" if number > wanted else "repeated or out of order"
                self.findings.add(kind, f"message {number} of producer {producer} came when {wanted} was due")
            expected[producer] = number + 1
        self.seen += len(payload) // WIDTH
