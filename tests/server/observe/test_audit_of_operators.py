"""The audit log of what operators do: cut what is retained, set quotas, take backups."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook.server.assembly import open_storage
from everbrook.settings import AuditTarget, StorageMode
from tests.kit.server_thread import RunningServer, configured, eventually
from tests.kit.wire import Wire


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def wire(tmp_path: Path, log: Path) -> Iterator[Wire]:
    settings = configured(
        storage__mode=StorageMode.ACID,
        storage__data_dir=str(tmp_path / "data"),
        audit__to=AuditTarget.FILE,
        audit__path=str(log),
    )
    with RunningServer(settings, open_storage(settings)) as server, server.connect() as wire:
        yield wire


def actions(log: Path) -> list[object]:
    return [json.loads(line)["action"] for line in log.read_text().splitlines()]


def test_a_backup_that_begins_is_written_down(wire: Wire, log: Path) -> None:
    place = wire.request("POST", "/admin/backups").headers["location"]
    assert wire.get(f"{place}/files").status == 200
    assert eventually(lambda: actions(log) == ["backup_begun"])


def test_quotas_that_are_set_and_taken_back_are_written_down(wire: Wire, log: Path) -> None:
    wire.request("PUT", "/ds/acme")
    assert wire.request("PUT", "/ds/acme/__ds/quota", b'{"max_streams": 3}').status == 200
    assert wire.get("/ds/acme/__ds/quota").status == 200
    assert wire.request("DELETE", "/ds/acme/__ds/quota").status == 204
    assert eventually(lambda: actions(log) == ["bucket_created", "quota_set", "quota_unset"])


def test_a_cut_of_what_is_retained_is_written_down(wire: Wire, log: Path) -> None:
    wire.create("/v1/stream/a", body=b"hello")
    offset = wire.request("HEAD", "/v1/stream/a").headers["stream-next-offset"]
    kept = {"content_type": "text/plain", "stream_snapshot_history": "keep"}
    assert wire.request("PUT", f"/v1/stream/a/__ds/snapshot/{offset}", b"all", **kept).status in {200, 201, 204}
    assert wire.request("PUT", f"/v1/stream/a/__ds/retention/{offset}").status == 204
    assert eventually(lambda: actions(log)[-1] == "retention_cut")
