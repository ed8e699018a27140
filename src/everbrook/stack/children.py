"""Child processes that never outlive their parent, each in a process group of its own.

So Ctrl-C reaches only the parent, which stops its children in order.
"""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from everbrook.stack import launch

_ORDINARY_USERS = ("postgres", "nobody")


class User(NamedTuple):
    uid: int
    gid: int


def ordinary_user() -> User | None:
    """Return the user for programs that refuse to run as root; None if this process is not root."""
    if os.geteuid() != 0:
        return None
    for name in _ORDINARY_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return User(entry.pw_uid, entry.pw_gid)
    return User(65534, 65534)  # the ids of `nobody` by convention


def give(path: Path, user: User | None) -> None:
    """Change the owner of a file or folder, if there is a user to change it to."""
    if user is not None:
        os.chown(path, user.uid, user.gid)


def start(
    command: Sequence[str],
    *,
    user: User | None = None,
    ending: signal.Signals = signal.SIGTERM,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: IO[bytes] | int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a child. If this process dies, for whatever reason, the child gets the signal `ending`."""
    uid, gid = user or (-1, -1)
    launching = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), str(int(ending)), str(uid), str(gid)]
    return subprocess.Popen(  # noqa: S603 - a command of ours
        [*launching, *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output != subprocess.DEVNULL else subprocess.DEVNULL,
        env=environment,
        cwd=cwd,
        process_group=0,
    )


def stop(child: subprocess.Popen[bytes], signal_number: signal.Signals, timeout_secs: float) -> bool:
    """Signal a child and wait for it. If it does not end in time, kill its group. Return whether it ended in time."""
    if child.poll() is None:
        child.send_signal(signal_number)
    try:
        child.wait(timeout_secs)
    except subprocess.TimeoutExpired:
        kill(child)
        return False
    return True


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a child and everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
