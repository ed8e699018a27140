"""What can be found in a store that a crash left without opening it to write: a crash damages nothing."""

from contextlib import closing
from pathlib import Path

import msgspec

from everbrook.storage import Damage, OsDisk
from everbrook.storage.base_rows import DATA
from everbrook.storage.base_state import BaseState, Opened
from everbrook.storage.journal_scan import read_journal
from everbrook.storage.lmdb_base import open_base
from everbrook.storage.lmdb_pages import problem_of
from everbrook.storage.manifest import BASE, JOURNAL, MANIFEST, parse_manifest


def base_state(folder: Path) -> BaseState:
    """Give what the base of a store says of itself."""
    with closing(open_base(OsDisk(), folder)) as base:
        return base.state()


def damages_in(folder: Path, boot: str) -> list[Damage]:
    """Check the journal of a store, in this process. If there is none yet, nothing in it can be damaged.

    What was not synced before the machine was started again may be lost.
    """
    if not (folder / MANIFEST).is_file() or not (folder / JOURNAL).is_dir():
        return []
    if problem := problem_of(folder / BASE / DATA):
        return [Damage(f"{BASE}/{DATA}", problem)]
    state, manifest = base_state(folder), parse_manifest((folder / MANIFEST).read_bytes())
    opened = msgspec.json.decode(state.opened, type=Opened) if state.opened else None
    if opened and not opened.kept_in(boot):
        return []
    return read_journal(OsDisk(), folder / JOURNAL, manifest.salt, state.applied, state.needed).damages
