"""What the tables of cases and subjects promise."""

import sys
from pathlib import Path

import pytest

from bench.cases import AIMS, CASES, DEFAULT_CASES, DURABLE_CASES
from bench.load import ClosedLoop, Target
from bench.subjects import DEFAULT_SUBJECTS, SUBJECTS, Subject


@pytest.mark.parametrize("subject", [subject for subject in SUBJECTS.values() if subject.reference])
def test_every_subject_has_a_reference_that_is_known(subject: Subject) -> None:
    assert subject.reference in SUBJECTS


def test_limits_are_raised_for_every_server_of_ours() -> None:
    ours = [subject for name, subject in SUBJECTS.items() if name.startswith("everbrook")]

    assert ours
    for subject in ours:
        assert int(subject.environment["DS_LIMITS__MAX_MEMORY_BYTES"]) >= 2**30
        assert int(subject.environment["DS_LIMITS__MAX_STREAM_BYTES"]) >= 2**30


def test_producers_count_on_from_zero_each_under_its_own_name() -> None:
    case = CASES["append-producer"]
    assert isinstance(case, ClosedLoop)
    target = Target(1, ("/v1/stream/a",), ("0",))
    first, second = (case.requests(target, number) for number in (0, 1))

    assert b"Producer-Id: producer-0\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n" in next(first)
    assert b"Producer-Seq: 1\r\n" in next(first)
    assert b"Producer-Id: producer-1\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n" in next(second)


def test_the_default_run_covers_writes_reads_and_live_readers() -> None:
    assert {"append-c64-s1", "append-c64-s64", "append-c1-s1", "append-1mb", "json-batch"} < set(DEFAULT_CASES)
    assert {"get-10kb", "head", "long-poll", "sse-500"} < set(DEFAULT_CASES)


def test_every_durable_server_of_ours_meets_the_file_mode_of_the_reference_and_our_memory_mode() -> None:
    durable = [subject for name, subject in SUBJECTS.items() if name in {"everbrook-acid", "everbrook-file-durable"}]

    assert [(subject.reference, subject.beside) for subject in durable] == [("node-file", "everbrook-memory")] * 2


def test_the_durable_run_has_every_aim() -> None:
    assert set(AIMS) < set(DURABLE_CASES)
    assert {"everbrook-memory", "everbrook-acid", "everbrook-file-durable"} == set(DEFAULT_SUBJECTS)


def test_a_server_with_a_disk_gets_an_empty_folder_that_is_gone_after_it() -> None:
    given: list[Path] = []

    def arguments(folder: str) -> list[str]:
        given.append(Path(folder))
        assert list(given[0].iterdir()) == []
        return []

    subject = Subject(
        name="constant",
        command=lambda port: [sys.executable, "-m", "bench.constant", str(port)],
        folder_arguments=arguments,
    )
    with subject.start():
        assert given[0].is_dir()
    assert not given[0].exists()
