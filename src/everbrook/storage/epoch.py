"""The epoch of a store: a number that a restore replaces, so that nobody takes the store for what it was before.

A store that is restored from an older backup grows anew: the same offset of the same stream then has other bytes. What
clients are shown of a stream's incarnation is mixed with the epoch, so they see another one.
"""

from contextlib import closing
from pathlib import Path

import msgspec
from msgspec.structs import replace

from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.disk import OsDisk
from everbrook.storage.lmdb_base import LOCK, LmdbBase, Opened
from everbrook.storage.manifest import JOURNAL, MANIFEST, format_manifest, parse_manifest, write_manifest
from everbrook.storage.pin import Hold
from everbrook.storage.segments import Segments
from everbrook.storage.tuning import DEFAULT_TUNING as TUNING


def set_epoch(folder: Path, epoch: int) -> None:
    """Give the store in a folder, which no server uses, another epoch: in its manifest, and in the base's copy of it.

    The rest of the folder has to be synced by whoever calls this.
    """
    if not (folder / JOURNAL).is_dir():
        # A crash came while it was made: there is nothing in it that a client could have seen.
        return
    disk = OsDisk()
    segments = Segments(disk, folder, Hold(disk), max_bytes=TUNING.segment_bytes, max_open=TUNING.max_open_segments)
    with closing(LmdbBase(folder, segments)) as base:
        manifest = replace(parse_manifest(base.state().manifest or disk.read(folder / MANIFEST)), epoch=epoch)
        with Checkpoint(base, TUNING) as checkpoint:
            # Since everything is synced, nothing can be lost with the machine any more.
            checkpoint.set_opened(msgspec.json.encode(Opened(sync=True, boot="")), format_manifest(manifest))
            checkpoint.commit()
    (base.folder / LOCK).unlink(missing_ok=True)
    write_manifest(disk, folder, manifest)
