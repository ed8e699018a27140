"""What an interrupt does to work that shares locks with other threads: it gives it up, and leaves no lock taken."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Lock, Thread, current_thread, get_ident, main_thread
from time import sleep
from types import FrameType

import pytest

from everbrook.cli.commands.backup import run_aside
from everbrook.cli.exits import INTERRUPTED
from tests.cli import interrupts
from tests.cli.archives import fill, running_in

PATIENCE_SECS = 60
WAITS_SECS = 0.05
"""Long enough that the main thread waits by then."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_in(tmp_path_factory.mktemp("source"), "acid") as url:
        fill(url)
        yield url


def test_work_runs_in_a_thread_and_gives_what_it_gives() -> None:
    assert run_aside(get_ident, Event()) != get_ident()


def test_what_work_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="none"):
        run_aside(lambda: int("none"), Event())


@pytest.mark.parametrize("thread", [main_thread, current_thread], ids=["that waits", "at work"])
def test_an_interrupt_of_either_thread_gives_work_up_and_waits_for_its_end(thread: Callable[[], Thread]) -> None:
    """A signal of the thread at work does not wake the other, as if it came right before the other waits."""
    lock, given_up, heard = Lock(), Event(), []

    def work() -> None:
        with lock:
            sleep(WAITS_SECS)
            signal.pthread_kill(thread().ident or 0, signal.SIGINT)
            heard.append(given_up.wait(PATIENCE_SECS))

    with pytest.raises(KeyboardInterrupt):
        run_aside(work, given_up)
    assert heard == [True]
    assert not lock.locked()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_right_after_the_end_of_work_ends_too() -> None:
    """The main thread has the lock by then, and the other one is still about to end."""
    finished = Event()

    def work() -> None:
        sleep(WAITS_SECS)
        finished.set()

    def end_slowly(_frame: FrameType, event: str, called: object) -> None:
        if event == "c_return" and getattr(called, "__name__", "") == "release" and finished.is_set():
            sleep(WAITS_SECS)

    def interrupt(frame: FrameType, event: str, called: object) -> None:
        waits = event == "c_return" and frame.f_code.co_filename == run_aside.__code__.co_filename and finished.is_set()
        if waits and getattr(called, "__name__", "") == "acquire":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    threading.setprofile(end_slowly)
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_aside(work, Event())
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.parametrize("after", [1, 8, 16, 24, 32, 40])
def test_a_backup_that_is_interrupted_behind_any_lock_ends(url: str, tmp_path: Path, after: int) -> None:
    """The main thread may take fewer locks than that: then it is not interrupted."""
    command = [sys.executable, interrupts.__file__, str(after), "backup", url, str(tmp_path / "dest")]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_SECS)
    assert ended.returncode in {0, INTERRUPTED}, ended.stderr
