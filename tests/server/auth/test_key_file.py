"""Files of keys are replaced as a whole, by one at a time, for their owner's eyes."""

import threading
from pathlib import Path

import pytest

from everbrook.server.auth.key_file import edit


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    edit(tmp_path / "keys", lambda _: b"x")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"old")
    (tmp_path / "keys").chmod(0o644)
    edit(tmp_path / "keys", lambda old: (old or b"") + b"!")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "keys").read_bytes() == b"old!"


def test_no_change_is_lost_among_many(tmp_path: Path) -> None:
    def add() -> None:
        for _ in range(20):
            edit(tmp_path / "keys", lambda old: (old or b"") + b"x")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "keys").read_bytes() == b"x" * 80


def test_a_change_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    edit(tmp_path / "keys", lambda _: b"x")

    def fail(_: bytes | None) -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        edit(tmp_path / "keys", fail)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".keys.lock", "keys"]
