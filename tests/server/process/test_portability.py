"""Systems that are not Linux: the server imports and serves without what only Linux has.

No other system runs these tests. What such a one lacks is taken away before anything of the server is loaded.
"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everbrook.server.limits.descriptors import descriptor_limit, largest_limit, raise_limit
from tests.kit.server_process import ServerProcess, environment

# What macOS does not have, by its documentation and that of Python.
LACKING = {
    "fcntl": "F_ADD_SEALS F_GETPIPE_SZ F_NOTIFY F_OFD_SETLK F_SETPIPE_SZ",
    "os": "O_DIRECT O_PATH O_TMPFILE RWF_DSYNC RWF_SYNC copy_file_range eventfd fdatasync getrandom getxattr "
    "memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity setxattr splice",
    "resource": "prlimit",
    "select": "epoll",
    "signal": "SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT sigtimedwait sigwaitinfo",
    "socket": "SOCK_CLOEXEC SOCK_NONBLOCK SO_DOMAIN SO_PASSCRED TCP_CORK TCP_DEFER_ACCEPT TCP_QUICKACK "
    "TCP_USER_TIMEOUT",
}

# From Python 3.13 on, `process_cpu_count` asks for what is taken away; elsewhere it is the other function.
SERVE = """
import importlib, os, sys
os.process_cpu_count = os.cpu_count
for name, lacking in {lacking}.items():
    module = importlib.import_module(name)
    for attribute in lacking:
        if hasattr(module, attribute):
            delattr(module, attribute)
from everbrook.cli.main import main
sys.exit(main(["serve", "--port", "0"]))
"""


@contextmanager
def served_elsewhere(folder: Path, mode: str) -> Iterator[ServerProcess]:
    """Serve as on a system that is not Linux."""
    lacking = {name: sorted(words.split()) for name, words in LACKING.items()}
    with subprocess.Popen(
        [sys.executable, "-c", SERVE.format(lacking=lacking)],
        cwd=folder,
        env=environment(DS_STORAGE__MODE=mode, DS_LOG__LEVEL="error"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield ServerProcess(process)
        finally:
            process.kill()


@pytest.mark.parametrize("mode", ["memory", "file-fast", "file-durable", "acid"])
def test_a_server_needs_nothing_that_only_linux_has(tmp_path: Path, mode: str) -> None:
    with served_elsewhere(tmp_path, mode) as server, server.connect() as wire:
        assert wire.create("/v1/stream/a", body=b"a").status == 201
        assert wire.append("/v1/stream/a", b"b").status == 204
        assert wire.request("PUT", f"/v1/stream/a/__ds/snapshot/{1:016d}", b"state").status == 204
        assert wire.get(f"/v1/stream/a?offset={1:016d}").body.endswith(b"b")
        code, _, err = server.stop().ended()
    assert (code, err) == (0, "")


# The limit of open files


def test_a_limit_that_the_system_does_not_let_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS the hard limit may be infinite, and a smaller one of the system refuses."""

    def refuse(_which: int, _limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    before = descriptor_limit()
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (before, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit(before + 1)
    assert descriptor_limit() == before


def test_an_infinite_limit_is_more_than_anybody_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, resource.RLIM_INFINITY))
    assert (descriptor_limit(), largest_limit()) == (256, sys.maxsize)


def test_a_system_without_limits_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert descriptor_limit() == largest_limit() == sys.maxsize
    raise_limit(sys.maxsize)
