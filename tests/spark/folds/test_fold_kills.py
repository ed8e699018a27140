"""The driver killed with -9 while streams grow: a stream has the old or the new snapshot, whole, and never a mix."""

import json
import random
import threading
import time
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

import pytest

from everbrook import Client, Stream
from everbrook.client import session_events, state_events
from tests.spark.drivers import driving
from tests.spark.folds.histories import applied, plain, replayed, restored, written

_DRIVER = Path(__file__).with_name("fold_driver.py")
_STREAMS, _KILLS, _MOST = 12, 3, 20_000
_WAIT_SECS = 240.0


class Writer:
    """Appends the same changes to streams that are folded and to twins that are not, at the same offsets."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.pairs = [
            (written(client, f"{prefix}in/{number}", []), written(client, f"{prefix}twin/{number}", []))
            for number in range(_STREAMS)
        ]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        chance = random.Random(9)
        for number in range(_MOST):
            if self._ended.is_set():
                return
            folded, twin = chance.choice(self.pairs)
            changes = [_change(chance, number) for _ in range(chance.choice((1, 5, 50)))]
            twin.extend(changes)
            folded.extend(changes)
            time.sleep(0.01)


def _change(chance: random.Random, number: int) -> dict[str, Any]:
    key = str(chance.randrange(20))
    match chance.randrange(6):
        case 0:
            return dict(state_events.delete("item", key))
        case 1:
            return dict(session_events.append("text", key, f"{number} "))
        case 2 if not number % 100:
            return {"headers": {"control": "reset"}}
        case _:
            return dict(state_events.upsert("item", key, {"number": number}))


def _offsets(writer: Writer) -> list[str | None]:
    return [folded.head().snapshot_offset for folded, _ in writer.pairs]


def _wait_for_folds(writer: Writer) -> None:
    before, deadline = _offsets(writer), time.monotonic() + _WAIT_SECS
    while sum(was != now for was, now in zip(before, _offsets(writer), strict=True)) < _STREAMS // 3:
        assert time.monotonic() < deadline, "nothing was folded"
        time.sleep(0.05)


def _require_whole(server: str, folded: Stream[Any], twin: Stream[Any]) -> None:
    """Compare a snapshot with what its digest says, and with the messages that it stands for."""
    snapshot = folded.snapshot()
    if snapshot is None:
        return
    with urlopen(f"{server}/v1/stream/{folded.name}/__ds/snapshot/{snapshot.offset}") as answer:  # noqa: S310 - ours
        assert answer.headers["Content-Digest"] == f"sha-256=:{b64encode(sha256(answer.read()).digest()).decode()}:"
    messages = [json.loads(each.payload) for page in twin.frames(until=snapshot.offset) for each in page]
    assert plain(restored(snapshot)) == plain(applied(messages))


@pytest.mark.long
def test_a_killed_driver_leaves_whole_snapshots_and_the_next_goes_on(
    server: str, client: Client, prefix: str, tmp_path: Path
) -> None:
    chance, writer = random.Random(10), Writer(client, prefix)
    with writer:
        for _ in range(_KILLS):
            with driving(_DRIVER, server, prefix, str(tmp_path / "checkpoint")):
                _wait_for_folds(writer)
                time.sleep(chance.random())
            for folded, twin in writer.pairs:
                _require_whole(server, folded, twin)
    for folded, twin in writer.pairs:
        assert replayed(folded) == replayed(twin)
    reports = client.stream(f"{prefix}reports").read().all()
    assert {report["value"]["outcome"] for report in reports} <= {"published", "current"}
