"""Attacks on the past: who may only append takes nothing away that others have written, nor the only trace of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Wire

LOG = "/v1/stream/log"
PAID = b"pay alice 10"
FORGED = b"pay mallory 1000000"
END = f"{LOG}/__ds/snapshot/{len(PAID):016d}"


class Ledger:
    """A stream with a payment in it, and the keys of those who use it."""

    def __init__(self, wire: Wire, root: str, mallory: str) -> None:
        self.wire = wire
        self.root, self.mallory = root, mallory
        wire.create(LOG, body=PAID, authorization=root)

    def publish(self, body: bytes, authorization: str, **headers: str) -> tuple[int, object]:
        answer = self.wire.request("PUT", END, body, authorization=authorization, content_type="text/plain", **headers)
        return (answer.status, "") if answer.status == 204 else answer.refusal


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    keys = Keyring(tmp_path)
    root, mallory = keys.give("admin:/"), keys.give("read+append:/v1/stream/log")
    with RunningServer(configured(auth__api_keys_path=str(keys.path))) as server, server.connect() as wire:
        yield Ledger(wire, root, mallory)


@pytest.mark.parametrize("history", [{}, {"stream_snapshot_history": "drop"}, {"stream_snapshot_history": "Keep"}])
def test_a_snapshot_that_cuts_is_refused(ledger: Ledger, history: dict[str, str]) -> None:
    assert ledger.publish(FORGED, ledger.mallory, **history) == (403, "forbidden")
    assert ledger.wire.get(LOG, authorization=ledger.mallory).body == PAID


def test_a_refused_snapshot_says_that_deleting_would_be_needed(ledger: Ledger) -> None:
    answer = ledger.wire.request("PUT", END, FORGED, authorization=ledger.mallory)
    assert b"delete:/v1/stream/log" in answer.body


def test_a_snapshot_beside_the_history_is_for_who_may_append(ledger: Ledger) -> None:
    assert ledger.publish(b"state", ledger.mallory, stream_snapshot_history="keep") == (204, "")
    assert ledger.wire.get(LOG, authorization=ledger.mallory).body == PAID


def test_the_only_trace_of_what_was_cut_is_not_replaced(ledger: Ledger) -> None:
    assert ledger.publish(PAID, ledger.root) == (204, "")
    assert ledger.publish(FORGED, ledger.mallory, stream_snapshot_history="keep") == (403, "forbidden")
    assert ledger.wire.get(END, authorization=ledger.root).body == PAID


@pytest.mark.parametrize("method, path", [("DELETE", LOG), ("DELETE", END), ("PUT", f"{LOG}/__ds/retention/{0:016d}")])
def test_no_other_way_of_cutting_is_open(ledger: Ledger, method: str, path: str) -> None:
    assert ledger.wire.request(method, path, authorization=ledger.mallory).refusal == (403, "forbidden")
