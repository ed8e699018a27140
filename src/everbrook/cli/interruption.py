"""Work that an interrupt must not break off at any line: it is told to give up, and ends as after an error.

Python raises KeyboardInterrupt in the main thread, wherever that is: also when it has just taken a lock, and before the
`with` that would let go of it has begun. Other threads then wait for that lock for ever. So whatever shares locks with
other threads, of a pool or of httpx2, runs in a thread of its own, and the main thread waits for it and holds nothing.
"""

import signal
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, Lock, Thread
from typing import TypeVar

T = TypeVar("T")


def run_aside(work: Callable[[], T], given_up: Event) -> T:
    """Run work in a thread. An interrupt gives it up and waits for its end; a second one ends the process."""
    outcome: Future[T] = Future()
    # An interrupted `Thread.join` of Python before 3.13 takes the thread for ended. `with` on a lock has no such gap.
    running = Lock()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised to whoever waits
            outcome.set_exception(error)
        finally:
            running.release()

    thread = Thread(target=run, name="everbrook-work", daemon=True)
    running.acquire()
    try:
        thread.start()
        with running:
            pass
    except KeyboardInterrupt:
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        given_up.set()
        # It does not run if the interrupt came while it was started.
        if thread.is_alive():
            with running:
                pass
        signal.signal(signal.SIGINT, before)
        raise
    return outcome.result()
