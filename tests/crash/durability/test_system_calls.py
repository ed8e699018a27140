"""The real calls behind each promise: what was synced, of which file, before the promise was made."""

import os
from pathlib import Path

import pytest

from tests.crash.durability import syncing
from tests.crash.durability.system_calls import STRACE, Call, Unsynced, parse_calls, trace

pytestmark = pytest.mark.skipif(STRACE is None and "CI" not in os.environ, reason="strace is not installed")
WRITTEN = '7 write(5</store/journal/a>, "x", 1) = 1'
KILLED = "8 ???( <unfinished ...>"
DATA = Path("base/data.mdb")
SYNCED = ["acid", "file-durable"]
FILES = ["file-durable", "file-fast"]

Traces = dict[str, list[Call]]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """The calls of a store in each durable mode."""
    return {mode: trace(mode, tmp_path_factory.mktemp(mode)) for mode in syncing.MODES}


def between(calls: list[Call], begin: str, end: str) -> list[list[Call]]:
    """Give the calls between each pair of things that were said."""
    said = [call.kind for call in calls]
    begins = [place for place, kind in enumerate(said) if kind == begin]
    return [calls[place : said.index(end, place)] for place in begins]


def unsynced_after(calls: list[Call]) -> Unsynced:
    unsynced = Unsynced()
    for call in calls:
        unsynced.take(call)
    return unsynced


@pytest.mark.parametrize("begin, end", [("persist", "acknowledged"), ("seal", "sealed")])
@pytest.mark.parametrize("mode", SYNCED)
def test_the_journal_is_synced_before_an_acknowledgement(traces: Traces, mode: str, begin: str, end: str) -> None:
    for calls in between(traces[mode], begin, end):
        assert any(call.kind.startswith("written") and call.path.parts[0] == "journal" for call in calls)
        assert not unsynced_after(calls).below("journal")


def test_file_fast_writes_the_journal_and_does_not_wait_for_it(traces: Traces) -> None:
    groups = between(traces["file-fast"], "persist", "acknowledged")
    assert all(unsynced_after(calls).below("journal") for calls in groups)


@pytest.mark.parametrize("mode", syncing.MODES)
def test_a_journal_file_has_its_name_for_certain_before_its_first_record(traces: Traces, mode: str) -> None:
    calls = [call for call in traces[mode] if call.path != Path()]
    names = [place for place, call in enumerate(calls) if call.kind == "named" and call.path.parent.name == "journal"]
    assert len(names) == 2
    for place in names:
        assert calls[place + 1] == Call("synced", Path("journal"))


@pytest.mark.parametrize("mode", syncing.MODES)
def test_the_base_is_synced_before_the_journal_is_trimmed(traces: Traces, mode: str) -> None:
    """LMDB writes its pages, syncs them, and then writes and syncs the page that makes them count."""
    *_, calls = between([*traces[mode]], "acknowledged", "checkpoint done")
    base = [call.kind for call in calls if call.path == DATA]
    assert base[-2:] == ["synced", "written and synced"]
    assert set(base[:-2]) == {"written"}
    (trimmed,) = (place for place, call in enumerate(calls) if call.kind == "unnamed" and "journal-" in call.path.name)
    assert DATA not in {call.path for call in calls[trimmed:]}


@pytest.mark.parametrize("mode", FILES)
def test_segments_are_synced_with_their_names_before_the_base_refers_to_them(traces: Traces, mode: str) -> None:
    *_, calls = between(traces[mode], "acknowledged", "checkpoint done")
    before = calls[: next(place for place, call in enumerate(calls) if call.path == DATA)]
    (segment,) = {call.path for call in before if call.kind == "written" and call.path.parts[0] == "streams"}
    assert not unsynced_after(before).below("streams")
    last_write = max(place for place, call in enumerate(before) if call.path == segment and call.kind == "written")
    assert [Call("synced", segment), Call("synced", segment.parent)] == before[last_write + 1 :][:2]
    assert {Call("synced", Path()), Call("synced", Path("streams"))} <= set(before)


@pytest.mark.parametrize("mode", syncing.MODES)
def test_a_blob_is_synced_with_its_name_before_a_change_refers_to_it(traces: Traces, mode: str) -> None:
    (calls,) = between(traces[mode], "blob", "finished")
    (blob,) = {call.path for call in calls if call.kind == "written"}
    assert calls[-2:] == [Call("synced", blob), Call("synced", blob.parent)]
    assert {Call("synced", Path()), Call("synced", Path("blobs"))} <= set(calls)


def test_a_thread_that_the_end_of_the_process_kills_made_no_call() -> None:
    lines = [WRITTEN, KILLED, "8 +++ exited with 0 +++", "7 +++ exited with 0 +++"]
    assert list(parse_calls(lines, Path("/store"))) == [Call("written", Path("journal/a"))]


@pytest.mark.parametrize(
    "lines",
    [[KILLED, WRITTEN.replace("7", "8", 1)], [WRITTEN.replace(', "x", 1) = 1', " <unfinished ...>"), WRITTEN]],
    ids=["missed", "at once"],
)
def test_what_strace_could_not_follow_is_refused(lines: list[str]) -> None:
    with pytest.raises(AssertionError, match=r"strace missed|two threads"):
        list(parse_calls(lines, Path("/store")))
