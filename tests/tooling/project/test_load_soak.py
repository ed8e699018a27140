"""The soak of a load is able to fail: what a reader must not see, and growth that must not be, are noticed."""

import pytest

from soak.load.messages import Findings, Sequel, format_message
from soak.load.watching import MB, Sample, growth


def findings_of(*numbers: int) -> dict[str, int]:
    findings = Findings()
    Sequel(findings).take(b"".join(format_message(7, number) for number in numbers))
    return dict(findings.counts)


@pytest.mark.parametrize(
    "numbers, kind",
    [
        ((0, 2), "lost"),
        ((1, 2), "lost"),
        ((0, 1, 1), "repeated or out of order"),
        ((0, 2, 1), "repeated or out of order"),
    ],
)
def test_a_message_that_is_lost_repeated_or_late_is_noticed(numbers: tuple[int, ...], kind: str) -> None:
    assert kind in findings_of(*numbers)


def test_messages_once_and_in_order_are_well() -> None:
    assert findings_of(0, 1, 2) == {}


@pytest.mark.parametrize("bytes_per_sec, files_per_sec, fault", [(0, 0, ""), (MB, 0, "memory"), (0, 5, "open files")])
def test_memory_and_files_that_grow_are_noticed(bytes_per_sec: int, files_per_sec: int, fault: str) -> None:
    samples = [Sample(at, 100 * MB + at * bytes_per_sec, 50 + at * files_per_sec) for at in range(60)]
    told = growth(samples).judge()
    assert told.startswith(fault)
    assert bool(told) == bool(fault)
