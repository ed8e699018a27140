"""What becomes of a stream that is due."""

from collections.abc import Iterator
from typing import NoReturn

import pytest

from everbrook import Client
from everbrook.client import state_events
from everbrook.protocol.errors import OffsetGone
from everbrook.spark.connection import disconnect
from everbrook.spark.folds.fold_task import Steps
from tests.kit.server_process import serving
from tests.spark.folds.compactors import Compactor
from tests.spark.folds.histories import bootstrapped, replayed, written

ADA, BOB = state_events.insert("user", "1", "Ada"), state_events.insert("user", "2", "Bob")


class Dying(Steps):
    """Die before anything is published."""

    def publish(self, *_given: object) -> NoReturn:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that takes little."""
    limits = {"APPEND_BYTES": "2000", "PRODUCERS_PER_STREAM": "1", "SNAPSHOT_BYTES": "1000"}
    variables = {f"DS_LIMITS__MAX_{name}": limit for name, limit in limits.items()}
    with serving(tmp_path_factory.mktemp("small"), **variables) as started:
        yield "http://{}:{}".format(*started.address)
        disconnect()


def test_many_streams_are_folded_at_once(server: str, client: Client, prefix: str) -> None:
    streams = [written(client, f"{prefix}{number:03d}", [ADA] * number) for number in range(100)]
    outcomes = Compactor(server, streamPrefix=prefix).outcomes()
    assert outcomes == {stream.name: "published" for stream in streams[1:]}  # the first is empty
    for stream in streams[1:]:
        stream.append(BOB)
    reports = Compactor(server, streamPrefix=prefix).fold()
    assert {(report["outcome"], report["events"]) for report in reports.values()} == {("published", 1)}
    assert all(bootstrapped(stream) == {"user": {"1": "Ada", "2": "Bob"}} for stream in streams[1:])


def test_a_report_tells_what_was_folded(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA, ADA, BOB])
    (report,) = Compactor(server, stream=stream.name).fold().values()
    head, snapshot = stream.head(), stream.snapshot()
    assert snapshot is not None
    assert (report["offset"], report["from_offset"]) == (head.offset, "0000000000000000") == (snapshot.offset, "0" * 16)
    told = ("outcome", "events", "entities", "log_bytes", "state_bytes", "invalid", "error")
    assert [report[name] for name in told] == ["published", 3, 2, int(head.offset), len(snapshot.data), 0, None]


def test_history_is_kept_unless_it_is_to_be_dropped(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA, BOB])
    Compactor(server, stream=stream.name).fold()
    assert len(stream.read().all()) == 2
    stream.append(ADA)
    Compactor(server, stream=stream.name, history="drop").fold()
    with pytest.raises(OffsetGone):
        stream.read("-1").all()


def test_a_stream_with_nothing_new_is_not_due(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    compactor = Compactor(server, stream=stream.name)
    assert [compactor.outcomes(), compactor.outcomes()] == [{stream.name: "published"}, {}]


def test_a_closed_stream_is_folded(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    stream.close(BOB)
    assert Compactor(server, stream=stream.name).outcomes() == {stream.name: "published"}
    assert bootstrapped(stream) == {"user": {"1": "Ada", "2": "Bob"}}


def test_streams_of_a_bucket_are_folded(server: str, client: Client) -> None:
    bucket = client.bucket("folds")
    bucket.create()
    bucket.stream("a").create()
    bucket.stream("a").append(ADA)
    assert Compactor(server, bucket="folds").outcomes() == {"a": "published"}
    assert bootstrapped(bucket.stream("a")) == {"user": {"1": "Ada"}}


# What can't be folded


def test_a_message_that_is_no_change_refuses_its_stream_alone(server: str, client: Client, prefix: str) -> None:
    bad = written(client, f"{prefix}bad", [ADA, {"x": 1}])
    written(client, f"{prefix}good", [ADA])
    reports = Compactor(server, streamPrefix=prefix, history="drop").fold()
    assert {name: report["outcome"] for name, report in reports.items()} == {
        f"{prefix}bad": "refused",
        f"{prefix}good": "published",
    }
    offset = f"{next(bad.frames()).ends[0]:016d}"
    assert reports[bad.name]["error"].startswith(f"the message at {offset} is no change: a change must have")
    assert (bad.snapshot(), len(bad.read().all())) == (None, 2)


def test_what_is_left_out_is_a_dead_letter_first(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}in/a", [{"x": 1}, ADA, 7])
    options = {"stream": stream.name, "invalid": "skip", "history": "drop", "deadLetters": f"{prefix}letters"}
    (report,) = Compactor(server, **options).fold().values()
    assert (report["outcome"], report["invalid"]) == ("published", 2)
    letters = client.stream(f"{prefix}letters").read().all()
    assert [(letter["stream"], letter["payload"]) for letter in letters] == [
        (stream.name, '{"x":1}'),
        (stream.name, "7"),
    ]
    assert replayed(stream) == {"user": {"1": "Ada"}}


def test_a_fold_that_is_done_again_has_its_dead_letters_once(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}in/a", [{"x": 1}, ADA])
    compactor = Compactor(server, stream=stream.name, invalid="skip", deadLetters=f"{prefix}letters")
    compactor.steps = Dying()
    with pytest.raises(KeyboardInterrupt):
        compactor.fold()
    compactor.steps = Steps()
    assert compactor.outcomes() == {stream.name: "published"}
    assert len(client.stream(f"{prefix}letters").read().all()) == 1


def test_a_fold_that_goes_further_than_one_that_failed_has_its_dead_letters_once(
    server: str, client: Client, prefix: str
) -> None:
    stream = written(client, f"{prefix}in/a", [{"x": 1}, ADA])
    options = {"stream": stream.name, "invalid": "skip", "deadLetters": f"{prefix}letters"}
    dying = Compactor(server, **options)
    dying.steps = Dying()
    with pytest.raises(KeyboardInterrupt):
        dying.fold()
    stream.append({"x": 2})
    Compactor(server, **options).fold()
    stream.append({"x": 3})
    Compactor(server, **options).fold()
    letters = client.stream(f"{prefix}letters").read().all()
    assert [letter["payload"] for letter in letters] == ['{"x":1}', '{"x":2}', '{"x":3}']


def test_dead_letters_that_are_too_large_are_cut(small: str, prefix: str) -> None:
    with Client(small) as client:
        for name, bad in (("a", [7]), ("b", ['"' * 900]), ("c", [])):
            written(client, f"{prefix}{name}", [ADA, *bad])
        reports = Compactor(small, streamPrefix=prefix, invalid="skip", deadLetters="letters").fold()
        letters = client.stream("letters").read().all()
    assert [report["outcome"] for report in reports.values()] == ["published"] * 3
    assert [letter["payload_bytes"] for letter in letters if letter["stream"] == f"{prefix}b"] == [1802]


def test_a_stream_whose_producer_is_one_too_many_for_the_dead_letters_is_folded_all_the_same(
    small: str, prefix: str
) -> None:
    there = f"letters-of-{prefix.strip('/')}"
    with Client(small) as client:
        for name in "ab":
            written(client, f"{prefix}{name}", [ADA, *range(6)])
        reports = Compactor(small, streamPrefix=prefix, invalid="skip", deadLetters=there).fold()
        letters = client.stream(there).read().all()
    assert [report["outcome"] for report in reports.values()] == ["published", "published"]
    assert [letter["payload"] for letter in letters] == [*map(str, range(6))] * 2


def test_many_dead_letters_are_written_once_and_in_order(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}in/a", [ADA, *range(150)])
    compactor = Compactor(server, stream=stream.name, invalid="skip", deadLetters=f"{prefix}letters")
    compactor.steps = Dying()
    with pytest.raises(KeyboardInterrupt):
        compactor.fold()
    compactor.steps = Steps()
    stream.append(150)
    Compactor(server, stream=stream.name, invalid="skip", deadLetters=f"{prefix}letters").fold()
    letters = client.stream(f"{prefix}letters").read().all()
    assert [letter["payload"] for letter in letters] == [*map(str, range(151))]


def test_a_stream_of_text_has_no_changes(server: str, client: Client, prefix: str) -> None:
    client.stream(f"{prefix}a").create(content_type="text/plain", data="hello")
    (report,) = Compactor(server, stream=f"{prefix}a").fold().values()
    assert (report["outcome"], report["error"].partition(",")[0]) == ("refused", "it is no stream of JSON")


@pytest.mark.parametrize("content_type, data", [("text/plain", b"mine"), ("application/json", b'{"mine":1}')])
def test_a_snapshot_that_is_somebodys_own_stays(
    server: str, client: Client, prefix: str, content_type: str, data: bytes
) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    stream.publish(data, offset=stream.head().offset, content_type=content_type)
    stream.append(BOB)
    (report,) = Compactor(server, stream=stream.name).fold().values()
    assert (report["outcome"], "is no state of changes" in report["error"]) == ("refused", True)
    snapshot = stream.snapshot()
    assert snapshot is not None
    assert snapshot.data == data


def test_a_snapshot_that_the_server_does_not_take_is_told(small: str, prefix: str) -> None:
    with Client(small) as client:
        for name, size in (("a", 1200), ("b", 10), ("c", 10), ("d", 10), ("e", 1500)):
            written(client, f"{prefix}{name}", [state_events.insert("text", "1", "x" * size)])
        reports = Compactor(small, streamPrefix=prefix).fold()
    assert [report["outcome"] for _, report in sorted(reports.items())] == ["refused", *["published"] * 3, "refused"]
    assert "its snapshot has 12" in reports[f"{prefix}a"]["error"]
    assert "limits.max_snapshot_bytes" in reports[f"{prefix}a"]["error"]
