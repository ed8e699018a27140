"""Checking an acid store: the journal's records, the shelf's databases, the blobs, and that they fit together."""

from pathlib import Path

from everbrook.storage.acid.journal_check import read_journal
from everbrook.storage.acid.replay_check import Replay
from everbrook.storage.acid.shelf_check import CheckedShelf
from everbrook.storage.blob_check import BlobCheck
from everbrook.storage.check import Notebook


def check_acid(folder: Path, shard_count: int, notebook: Notebook) -> None:
    """Read everything and write down what does not verify."""
    shelf = CheckedShelf(folder, shard_count, notebook)
    blobs = BlobCheck(folder, notebook)
    records = read_journal(folder / "journal", shelf.applied, notebook)
    replay = Replay(shelf, notebook)
    for placed in records:
        replay.take(placed)
    notebook.tally.records = len(records)
    replay.count_streams(blobs)
    shelf.check(replay.touched, replay.heads, blobs)
    blobs.run()
    shelf.close()
