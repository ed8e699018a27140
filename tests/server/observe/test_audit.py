"""The audit log: who created, deleted and was refused, and what an attack can't make of it."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.cli.logs import TextFormatter
from everbrook.protocol.errors import Unauthorized
from everbrook.server.exchange import Request, problem_response
from everbrook.server.methods import AUDITED, operation_at
from everbrook.server.observe.audit import Audit, Fields, audit_of
from everbrook.server.observe.observer import address_of_peer
from everbrook.server.routes import Resource
from everbrook.settings import AuditSettings, AuditTarget, SettingsError
from tests.kit.server_thread import GatedStorage, eventually
from tests.kit.servers import Connect, Start, StartEither


class Kept:
    """A sink that a test looks into."""

    def __init__(self) -> None:
        self.records: list[Fields] = []

    def write(self, record: Fields) -> None:
        self.records.append(record)

    def reopen(self) -> None: ...

    def close(self) -> None: ...


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def to_file(path: Path, **more: object) -> dict[str, object]:
    return {"audit__to": AuditTarget.FILE, "audit__path": str(path), **more}


def refuse(audit: Audit, times: int, wait_secs: float = 0.0) -> None:
    """Refuse something, on a loop as a server does."""

    async def refused() -> None:
        for _ in range(times):
            audit.answered(refused_request(), problem_response(Unauthorized("no"), b""), 0.0)
        await asyncio.sleep(wait_secs)

    asyncio.run(refused())


def refused_request() -> Request:
    return Request(b"GET", b"/v1/stream/secret", b"", {}, b"")


def test_creating_and_deleting_are_written_down(
    start_either: StartEither, connect: Connect, path: str, tmp_path: Path
) -> None:
    log = tmp_path / "audit.log"
    wire = connect(start_either(**to_file(log)))
    told = wire.create(path).headers["x-request-id"]
    wire.request("PUT", path, content_type="text/plain")
    wire.append(path, b"not worth a line")
    wire.request("DELETE", path)
    assert eventually(lambda: [line["action"] for line in lines(log)] == ["stream_created", "stream_deleted"])
    first = lines(log)[0]
    assert (first["path"], first["outcome"], first["request_id"]) == (path, "ok", told)
    assert (first["address"], first["identity"]) == ("127.0.0.1", None)


@pytest.mark.parametrize(
    "method, target, action",
    [("PUT", "/ds/bucket-1", "bucket_created"), ("DELETE", "/ds/bucket-1", "bucket_deleted")],
)
def test_buckets_are_written_down(
    start: Start, connect: Connect, tmp_path: Path, method: str, target: str, action: str
) -> None:
    log = tmp_path / "audit.log"
    wire = connect(start(**to_file(log)))
    wire.request("PUT", "/ds/bucket-1")
    wire.request(method, target)
    assert eventually(lambda: action in [line["action"] for line in lines(log)])


@pytest.mark.usefixtures("faults")
def test_what_did_not_become_durable_is_told_as_failed(
    start: Start, connect: Connect, path: str, tmp_path: Path
) -> None:
    storage = GatedStorage()
    storage.failure = OSError("gone")
    storage.gate.set()
    log = tmp_path / "audit.log"
    connect(start(storage, **to_file(log))).request("PUT", path)
    assert eventually(
        lambda: [(line["action"], line["outcome"]) for line in lines(log)] == [("stream_created", "failed")]
    )


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines of the audit log, in the format that people read."""
    caplog.set_level(logging.INFO, "everbrook.audit")
    return lambda: [TextFormatter().format(each) for each in caplog.records if each.name == "everbrook.audit"]


BEHIND_PROXY = {"auth__trusted_proxies": "127.0.0.1", "auth__default_scopes": "admin:/"}


def test_a_line_of_the_log_says_who_did_what(
    start: Start, connect: Connect, path: str, said: Callable[[], list[str]]
) -> None:
    wire = connect(start(audit__to=AuditTarget.LOG, **BEHIND_PROXY))
    told = wire.create(path, x_jwt_sub="alice", x_forwarded_for="203.0.113.7").headers["x-request-id"]
    who = "identity='alice' identity_source='proxy' address='203.0.113.7'"
    assert eventually(said)
    assert said()[0].endswith(f"stream_created: ok {who} method='PUT' path='{path}' status=201 [{told}]")


@pytest.mark.parametrize("breaking", ["\u0085", "\u2028", "\u202e", "\u009b31m"], ids=ascii)
def test_nothing_of_a_client_breaks_a_line_of_the_log(
    start: Start, connect: Connect, path: str, said: Callable[[], list[str]], breaking: str
) -> None:
    wire = connect(start(audit__to=AuditTarget.LOG, **BEHIND_PROXY))
    wire.create(path, x_jwt_sub=f"alice{breaking}stream_deleted: ok")
    assert eventually(said)
    assert "stream_deleted: ok'" in said()[0]
    assert [line.isprintable() for line in said()] == [True]


def test_what_no_request_asked_for_is_said_in_full_too(said: Callable[[], list[str]]) -> None:
    audit_of(AuditSettings(to=AuditTarget.LOG), address_of_peer).note("keys_reloaded", detail="3\nkeys")
    assert said()[0].endswith("keys_reloaded: ok detail='3\\nkeys'")


def test_of_many_refusals_some_are_written_down_and_then_their_number() -> None:
    kept = Kept()
    audit = Audit(kept, 3, address_of_peer)
    refuse(audit, 1000)
    audit.close()
    assert [record["outcome"] for record in kept.records] == ["UNAUTHORIZED"] * 3 + ["left_out"]
    assert kept.records[-1]["count"] == 997


def test_the_number_of_refusals_that_were_left_out_is_told_though_none_follow() -> None:
    kept = Kept()
    refuse(Audit(kept, 3, address_of_peer, window_secs=0.05), 10, wait_secs=0.2)
    assert kept.records[-1] == {"action": "refused", "outcome": "left_out", "count": 7}


def test_a_reload_is_written_down_by_who_makes_it() -> None:
    kept = Kept()
    Audit(kept, 1, address_of_peer).note("keys_reloaded", detail="3 keys")
    assert kept.records == [{"action": "keys_reloaded", "outcome": "ok", "detail": "3 keys"}]


def test_a_file_that_is_full_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = audit_of(
        AuditSettings(to=AuditTarget.FILE, path=str(path), max_file_bytes=300, keep_files=2), address_of_peer
    )
    for number in range(50):
        audit.note("reloaded", detail=str(number))
    audit.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.log", "audit.log.1", "audit.log.2"]
    assert lines(path)[-1]["detail"] == "49"


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = audit_of(AuditSettings(to=AuditTarget.FILE, path=str(path)), address_of_peer)
    audit.note("first")
    path.rename(tmp_path / "moved")
    audit.reopen()
    audit.note("second")
    audit.close()
    assert [line["action"] for line in lines(path)] == ["second"]


def test_a_folder_that_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^audit\.path: .*nowhere.* can't be written to"):
        audit_of(AuditSettings(to=AuditTarget.FILE, path=str(tmp_path / "nowhere" / "audit.log")), address_of_peer)


def test_the_end_of_a_link_is_not_told_as_that_of_its_subscription() -> None:
    assert AUDITED[operation_at(Resource.SUBSCRIPTION, b"DELETE")] == "subscription_deleted"
    assert operation_at(Resource.LINK, b"DELETE") not in AUDITED
