"""What `everbrook check` finds in a store that a crash left: a crash damages nothing."""

from pathlib import Path

from everbrook.storage.acid.check import check_acid
from everbrook.storage.check import Damage, Notebook
from everbrook.storage.files.check import check_files
from everbrook.storage.manifest import MANIFEST, parse_manifest


def damages_in(folder: Path) -> list[Damage]:
    """Check a store, in this process. If there is none yet, nothing in it can be damaged."""
    if not (folder / MANIFEST).is_file():
        return []
    found: list[object] = []
    notebook, manifest = Notebook(folder, found.append), parse_manifest((folder / MANIFEST).read_bytes())
    if manifest.mode == "acid":
        check_acid(folder, manifest.shard_count, notebook)
    else:
        check_files(folder, notebook)
    return [each for each in found if isinstance(each, Damage)]
