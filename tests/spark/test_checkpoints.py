"""What is kept beside Spark's own files of a checkpoint."""

from pathlib import Path

import pytest

from everbrook.spark.checkpoints import keep_append_bytes
from everbrook.spark.given import InvalidOption


def begin(checkpoint: Path, batch: int, *, finish: bool = False) -> None:
    for folder in ("offsets", "commits") if finish else ("offsets",):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / str(batch)).touch()


def test_the_size_of_appends_may_change_between_batches(tmp_path: Path) -> None:
    keep_append_bytes(str(tmp_path), 100)
    begin(tmp_path, 0, finish=True)
    keep_append_bytes(f"file://{tmp_path}", 200)
    begin(tmp_path, 1)
    keep_append_bytes(str(tmp_path), 200)


def test_the_size_of_appends_must_not_change_while_a_batch_is_unfinished(tmp_path: Path) -> None:
    keep_append_bytes(str(tmp_path), 100)
    begin(tmp_path, 0, finish=True)
    begin(tmp_path, 1)
    with pytest.raises(InvalidOption, match="was 100 when batch 1 was begun"):
        keep_append_bytes(str(tmp_path), 200)
    keep_append_bytes(str(tmp_path), 100)


def test_nothing_is_kept_of_a_checkpoint_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep_append_bytes("s3a://bucket/checkpoint", 100)
    assert list(tmp_path.iterdir()) == []
