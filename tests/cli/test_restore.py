"""`everbrook restore`: a data folder is made of a backup entirely, or not at all."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import httpx2
import pytest

from everbrook import Client
from tests.cli.archives import fill, running_in
from tests.cli.backups import back_up, ran, restore


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One backup, which nobody touches."""
    folder = tmp_path_factory.mktemp("kept")
    with running_in(folder / "source", "acid") as url:
        fill(url)
        back_up(url, folder / "dest")
    return folder / "dest"


@pytest.fixture
def backup(kept: Path, tmp_path: Path) -> Path:
    """The only backup of a folder, which a test may break."""
    shutil.copytree(kept, tmp_path / "dest", symlinks=True)
    return (tmp_path / "dest" / "latest").resolve()


@pytest.mark.parametrize("folder", ["{}/evil/deep", "../../../evil", "a/../../../../evil"])
def test_a_folder_that_leads_out_of_the_store_is_not_made(backup: Path, tmp_path: Path, folder: str) -> None:
    manifest = json.loads((backup / "backup.json").read_text())
    manifest["folders"].append(folder.format(tmp_path))
    (backup / "backup.json").write_text(json.dumps(manifest))
    refused = ran("restore", backup, tmp_path / "restored")
    assert (refused.returncode, "is not the name of a file in a store" in refused.stderr) == (1, True)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("victim", ["files.jsonl", "backup.json", "manifest.json"])
def test_a_backup_that_was_tampered_with_is_not_restored(backup: Path, tmp_path: Path, victim: str) -> None:
    (path,) = backup.rglob(victim)
    path.write_bytes(path.read_bytes().translate(bytes.maketrans(b"13579", b"79135")))
    assert ran("restore", backup, tmp_path / "restored").returncode == 1
    assert [path.name for path in tmp_path.iterdir() if "restor" in path.name] == []


def test_a_file_of_a_backup_that_is_missing_is_named(backup: Path, tmp_path: Path) -> None:
    (path,) = backup.rglob("manifest.json")
    path.unlink()
    assert str(path) in ran("restore", backup, tmp_path / "restored").stderr


def test_nothing_is_restored_over_something(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    refused = ran("restore", kept, tmp_path)
    assert (refused.returncode, "is not empty" in refused.stderr) == (1, True)


def test_of_two_that_restore_into_one_folder_the_second_is_refused(kept: Path, tmp_path: Path) -> None:
    draft = tmp_path / ".restored.restoring"
    (draft / "acid").mkdir(parents=True)
    first = os.open(draft, os.O_RDONLY)
    try:
        fcntl.flock(first, fcntl.LOCK_EX)
        refused = ran("restore", kept, tmp_path / "restored")
    finally:
        os.close(first)
    assert (refused.returncode, "is being restored by another process" in refused.stderr) == (1, True)
    assert (draft / "acid").is_dir()


def test_what_a_killed_run_has_left_is_in_nobodys_way(kept: Path, tmp_path: Path) -> None:
    (tmp_path / ".restored.restoring" / "acid").mkdir(parents=True)
    (tmp_path / ".restored.restoring" / "acid" / "half").write_bytes(b"of it")
    assert restore(kept, tmp_path / "restored")["streams"]
    assert [path.name for path in tmp_path.rglob("*") if path.name in {"half", ".restored.restoring"}] == []


def test_a_lock_of_a_draft_that_is_gone_is_none(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = tmp_path / ".restored.restoring"
    opened = os.open

    def replaced(path: str | Path, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(path, flags, mode)
        if path == draft:
            draft.rmdir()
            (draft / "of another").mkdir(parents=True)
        return descriptor

    monkeypatch.setattr(os, "open", replaced)
    assert "by another process" in ran("restore", kept, tmp_path / "restored").stderr
    assert (draft / "of another").is_dir()


def test_a_mount_point_is_refused_before_anything_is_copied(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    refused = ran("restore", kept, tmp_path)
    assert (refused.returncode, "is a mount point" in refused.stderr) == (1, True)


def etags(url: str) -> tuple[str, str]:
    """The entity tags of one page, read at once and by a long-poll."""
    page = f"{url}/v1/stream/etags?offset=-1"
    return httpx2.get(page).headers["ETag"], httpx2.get(f"{page}&live=long-poll").headers["ETag"]


def test_every_restore_makes_other_streams_of_them_for_clients(tmp_path: Path) -> None:
    with running_in(tmp_path / "source", "acid") as url:
        with Client(url) as client:
            client.stream("etags").create(content_type="text/plain")
            client.stream("etags").append(b"the same bytes")
        found = [etags(url)]
        back_up(url, tmp_path / "dest")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        restore(tmp_path / "dest", tmp_path / name / "data")
        for _ in range(2):
            with running_in(tmp_path / name, "acid") as url:
                found.append(etags(url))
    source, one, one_again, two, two_again = found
    assert (one, two) == (one_again, two_again)
    assert all(len(set(tags)) == 3 for tags in zip(source, one, two, strict=True))
