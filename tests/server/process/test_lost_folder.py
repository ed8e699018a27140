"""Two servers never write to one store: who has lost the lock file stops."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import pytest

from everbrook.server.assembly import assemble, open_storage
from everbrook.settings import StorageMode
from everbrook.storage import StoreError
from tests.kit.server_process import ServerProcess, serving
from tests.kit.server_thread import configured, eventually

STREAM = "/v1/stream/a"
PATIENCE_SECS = 60.0


def refuses_writes(server: ServerProcess) -> bool:
    """Whether the server takes no more writes, or has ended for it."""
    if server.process.poll() is not None:
        return True
    with suppress(ConnectionError), server.connect() as wire:
        return wire.append(STREAM, b"lost").status == 503
    return False


@pytest.mark.parametrize("mode, store", [("acid", "acid"), ("file-durable", "file")])
def test_a_server_whose_lock_was_removed_stops_writing(tmp_path: Path, mode: str, store: str) -> None:
    with serving(tmp_path, DS_STORAGE__MODE=mode) as first:
        with first.connect() as wire:
            assert wire.create(STREAM, body=b"a").status == 201
        (tmp_path / "data" / "streams" / store / "lock").unlink()
        assert eventually(lambda: refuses_writes(first), PATIENCE_SECS)
        with serving(tmp_path, DS_STORAGE__MODE=mode) as second, second.connect() as wire:
            assert wire.append(STREAM, b"b").status == 204
            _, _, err = first.stop().ended()
            assert "lock was removed or replaced, so that another server may use the store" in err
            assert wire.append(STREAM, b"c").status == 204
    with serving(tmp_path, DS_STORAGE__MODE=mode) as third, third.connect() as wire:
        kept = wire.get(f"{STREAM}?offset=-1").body
        assert kept.replace(b"lost", b"") == b"abc"


@pytest.mark.usefixtures("faults")
def test_a_server_that_loses_its_folder_while_it_starts_does_not_serve(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="everbrook.engine.watchdogs")
    settings = configured(storage__mode=StorageMode.ACID, storage__data_dir=str(tmp_path))

    async def start() -> None:
        storage = open_storage(settings)
        application = assemble(settings, storage)
        (tmp_path / "acid" / "lock").unlink()
        try:
            await application.begin()
        finally:
            await application.close()
            storage.close()

    with pytest.raises(StoreError, match="lock was removed or replaced"):
        asyncio.run(start())
