"""Files of stores are damaged, some hundred times: whatever is lost is named, and nothing else is lost.

`python -m soak flips` does the same with other seeds, and for longer. Here it also has to notice what must not be.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from everbrook.protocol import Change, Head, Identity, Kept, Snapshot, Write
from everbrook.storage.api import Blobs
from everbrook.storage.base_rows import PLACE, seal
from soak.flips.damage import JOURNAL, MANIFEST, Damaging
from soak.flips.judge import TORN, WHOLE, Expectation, Judge, expect
from soak.flips.justification import justify
from soak.flips.ledger import Ledger, Stream, written
from soak.flips.workload import MODES, TUNINGS, UNSEALED, StoreImage, make_image, open_store
from tests.kit.damage import Rows, rows

ROOT = Path(__file__).resolve().parents[4]
CASES = 70
TEXT = b"text/plain"
NAMES = {b"stream": 1, b"other": 2}


@pytest.mark.parametrize("mode", MODES)
def test_whatever_is_damaged_is_named_and_nothing_else(mode: str) -> None:
    command = [sys.executable, "-m", "soak.flips", "--seed", "1", "--modes", mode, "--cases", str(CASES)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stdout
    assert f"{mode}: {CASES} cases, 0 violations" in ended.stdout
    kinds = set(re.findall(r"\]   (\w+): ", ended.stdout))
    assert kinds >= {"manifest", "base", "journal", "blob"} | ({"segment"} if mode != "acid" else set())


@pytest.fixture(scope="module", params=["acid", "file-durable"])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StoreImage:
    return make_image(tmp_path_factory.mktemp("image"), request.param, Random(1))


def violations(image: StoreImage, folder: Path) -> list[str]:
    """Judge a store as if nothing in it were damaged, and nothing may be missing."""
    expected = Expectation(justify(image, folder, Damaging(MANIFEST, "", ())), sound=True)
    verdict = Judge(image, folder, expected, Random(1), walked=False).verdict()
    assert verdict.violations or verdict.verdict == WHOLE
    return verdict.violations


def test_a_store_that_is_whole_is_found_to_be(image: StoreImage, tmp_path: Path) -> None:
    assert violations(image, copied(image, tmp_path)) == []


def lose_a_name(changed: Rows) -> None:
    changed.delete(b"names", min(changed.all(b"names")))


def lose_a_producer(changed: Rows) -> None:
    changed.delete(b"producers", min(changed.all(b"producers")))


def age_a_producer(changed: Rows) -> None:
    key, row = min(changed.all(b"producers").items())
    changed.put(b"producers", key, seal(key, bytes(16) + row[16:-4]))


def mistake_a_stream(changed: Rows) -> None:
    (name, _), (_, other) = list(changed.all(b"names").items())[:2]
    changed.put(b"names", name, seal(name, other[:-4]))


def lose_a_chunk(changed: Rows) -> None:
    incarnation, start = PLACE.unpack(min(changed.all(b"chunks")))
    changed.delete(b"chunks", PLACE.pack(incarnation, start))


@pytest.mark.parametrize("silence", [lose_a_name, lose_a_producer, age_a_producer, mistake_a_stream, lose_a_chunk])
def test_what_is_missing_without_a_word_is_noticed(
    image: StoreImage, tmp_path: Path, silence: Callable[[Rows], None]
) -> None:
    folder = copied(image, tmp_path)
    with rows(folder) as changed:
        silence(changed)
    assert violations(image, folder)


def replaced_snapshot(tmp_path: Path) -> StoreImage:
    """Make a store whose last group is a message and another snapshot, of which no seal says that it was durable."""
    ledger, folder = Ledger(), tmp_path / "image"
    with closing(open_store(tmp_path / "run", "acid", TUNINGS[0])) as storage:
        stream, other = (
            written(None, Head(Identity(name, number, TEXT, TEXT, 0), 0, 0)) for name, number in NAMES.items()
        )
        first, second = (
            Write(replace(stream.head, kept=Kept(0, published(storage.blobs, number))), cut=True) for number in (1, 2)
        )
        lost = written(Stream(other.head), other.head, b"a message")
        groups: list[list[Change]] = [[(stream,), (other,), (first,)], [(lost,), (second,)]]
        for group in groups:
            storage.persist(group)
            storage.apply(group)
            for change in group:
                ledger.take(change)
        storage.blobs.remove(1, 1)
        shutil.copytree(tmp_path / "run", folder)
    return StoreImage(folder, folder, "acid", UNSEALED, TUNINGS[0], ledger)


def published(blobs: Blobs, number: int) -> Snapshot:
    draft = blobs.begin(1, number)
    draft.write(b"state")
    draft.finish()
    return Snapshot(0, 0, TEXT, 5, sha256(b"state").digest(), 1, number)


def test_a_snapshot_is_gone_with_the_change_that_replaced_it_where_nothing_proves_that(tmp_path: Path) -> None:
    """Where the first change of the last group can't be read, the second counts as cut off, though it is whole."""
    image, folder = replaced_snapshot(tmp_path), tmp_path / "store"
    shutil.copytree(image.folder, folder)
    (path,) = (folder / "journal").glob("journal-*.log")
    path.write_bytes(path.read_bytes().replace(b"a message", b"a Message"))

    damaging = Damaging(JOURNAL, "bits flipped", (f"journal/{path.name}",))
    verdict = Judge(image, folder, expect(image, folder, damaging), Random(1), walked=False).verdict()

    assert (verdict.verdict, verdict.violations) == (TORN, [])


def copied(image: StoreImage, tmp_path: Path) -> Path:
    return Path(shutil.copytree(image.folder, tmp_path / "store"))
