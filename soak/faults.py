"""Faults of a real disk under a real server: a sync that fails once, and a file system that runs full.

Both are made by the system itself: `strace` lets a chosen `fdatasync` fail, and a small tmpfs has no more room than it
was given. Where the system does not let us, the run says so and goes on; the tests have the same faults in-process.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soak.client import Answer, Client
from soak.ledger import Log, PromiseBroken, message, parse, verify
from soak.progress import say
from soak.server import Server

_PATH = "/v1/stream/soak/faults"
_BYTES = "application/octet-stream"
_FOUND, _CREATED, _APPENDED, _UNAVAILABLE = 200, 201, 204, 503
_SMALL_BYTES, _LARGE_BYTES, _SNAPSHOT_BYTES = 100, 256 * 1024, 16 * 1024 * 1024
_MAX_APPENDS = 5_000
_FULL_AT, _ROOMY = "48m", "400m"


class Appender:
    """Appends until it is refused, and holds the stream against what it knows."""

    def __init__(self, port: int, size: int) -> None:
        self._client = Client(port)
        self._size = size
        self._log = Log("appender")

    def create(self) -> None:
        """Make the stream."""
        self._client.expect({_CREATED}, "PUT", _PATH, content_type=_BYTES)

    def append(self) -> bool:
        """Append once; tells whether it was acknowledged."""
        number = self._log.send()
        body = message(self._log.writer, number, self._size)
        answer = self._client.expect({_APPENDED, _UNAVAILABLE}, "POST", _PATH, body, content_type=_BYTES)
        if answer.status == _APPENDED:
            self._log.acknowledge(number, answer.next_offset)
        return _took(answer)

    def publish(self) -> bool:
        """Publish a snapshot of everything, beside its history; tells whether it was acknowledged."""
        offset = self._client.expect({_FOUND}, "HEAD", _PATH).next_offset
        target, history = f"{_PATH}/__ds/snapshot/{offset:016d}", {"Stream_Snapshot_History": "keep"}
        return _took(self._client.expect({_APPENDED, _UNAVAILABLE}, "PUT", target, bytes(_SNAPSHOT_BYTES), **history))

    def append_until_refused(self) -> int:
        """Append until the fault shows; tells how many were acknowledged."""
        for number in range(_MAX_APPENDS):
            if not self.append():
                return number
        raise PromiseBroken(f"{_MAX_APPENDS} appends were acknowledged, and the fault never showed")

    def reconnect(self) -> None:
        """Forget the connection to a server that is gone."""
        self._client.close()

    def check(self) -> int:
        """Read everything back."""
        content = b"".join(page.body for page in self._client.pages(_PATH))
        return verify(parse(content), [self._log])


def _took(answer: Answer) -> bool:
    """Tell whether a write was acknowledged. A refusal has to say when to come again."""
    if answer.status == _UNAVAILABLE and not answer.headers.get("retry-after", "").isdigit():
        raise PromiseBroken(f"a 503 without Retry-After: {answer.headers}")
    return answer.status != _UNAVAILABLE


def fail_sync(mode: str, folder: Path, number: int) -> None:
    """Let the `number`-th sync fail once, and see that nothing is acknowledged from there on and nothing lost."""
    inject = f"inject=fdatasync:error=EIO:when={number}"
    tracer = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", inject)
    with Server(mode, folder, under=tracer) as server:
        appender = Appender(server.port, _SMALL_BYTES)
        appender.create()
        acknowledged = appender.append_until_refused()
        if any(appender.append() for _ in range(20)):
            raise PromiseBroken("an append was acknowledged after a sync had failed")
        visible = appender.check()
        if visible != acknowledged:
            raise PromiseBroken(f"{acknowledged} appends were acknowledged, and readers see {visible}")
    _check_after_restart(mode, folder, server.port, appender)
    say(f"{mode}: sync {number} failed after {acknowledged} appends; nothing more was acknowledged, nothing is lost")


def _check_after_restart(mode: str, folder: Path, port: int, appender: Appender) -> None:
    appender.reconnect()
    with Server(mode, folder, port=port):
        appender.check()
        if not appender.append():
            raise PromiseBroken("a restarted server refuses appends")
        appender.check()


def fill_disk(mode: str) -> None:
    """Fill a small file system, see that appends are refused, make room, and see that it goes on without a restart."""
    with _small_disk() as disk, Server(mode, disk / "store") as server:
        appender = Appender(server.port, _LARGE_BYTES)
        appender.create()
        acknowledged = appender.append_until_refused()
        appender.check()
        if acknowledged == 0:
            raise PromiseBroken("an empty disk took nothing at all")
        if appender.publish():
            raise PromiseBroken("a full disk took a snapshot")
        _mount("-o", f"remount,size={_ROOMY}", str(disk))
        if not all(appender.append() for _ in range(acknowledged)):
            raise PromiseBroken("there is room again, and appends are refused")
        if not appender.publish():
            raise PromiseBroken("there is room again, and a snapshot is refused")
        appender.check()
        server.kill()
        appender.reconnect()
        server.start()
        appender.check()
        say(f"{mode}: a full disk refused after {acknowledged} appends and took as many again when there was room")


@contextmanager
def _small_disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        _mount("-t", "tmpfs", "-o", f"size={_FULL_AT}", "tmpfs", folder)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)  # noqa: S603, S607 - what we mounted


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)  # noqa: S603, S607 - a folder of our own


def can_trace() -> bool:
    """Tell whether `strace` can be used here."""
    command = ["strace", "-qq", "-o", "/dev/null", "true"]
    return bool(shutil.which("strace")) and subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603


def can_mount() -> bool:
    """Tell whether a small file system can be made here."""
    try:
        with _small_disk():
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
