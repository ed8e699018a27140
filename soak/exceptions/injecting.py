"""The program of a server in whose callbacks exceptions are raised: `python -m soak.exceptions.injecting SOCKET …`.

Commands come over a Unix socket: raise in the next callback of a kind, or tell how often each kind was called. With
`unguarded` what is raised passes every guard, as if there was none.
"""

import json
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from everbrook.cli.exits import STORAGE_FAILED
from everbrook.cli.logs import configure_logging
from everbrook.engine.clock import Clock
from everbrook.engine.faults import Callback
from everbrook.engine.tuning import EngineTuning, ExpiryTuning, OwnershipTuning, StreamsTuning
from everbrook.protocol.state import Change
from everbrook.server.application import Application
from everbrook.server.assembly import assemble, open_storage
from everbrook.server.serve import StorageFailed, run
from everbrook.server.tuning import AuthTuning, ListenerTuning, ServerTuning
from everbrook.settings import Settings
from everbrook.settings.load import Given, Layer, load_layers
from everbrook.storage import Storage, StorageFull

UNGUARDED = "unguarded"
QUICK = ServerTuning(
    engine=EngineTuning(
        streams=StreamsTuning(max_resident=40),
        expiry=ExpiryTuning(scan_secs=1.0),
        ownership=OwnershipTuning(check_secs=0.5),
        commit=replace(EngineTuning().commit, stall_secs=2.0),
    ),
    listener=ListenerTuning(certificate_secs=0.5),
    auth=AuthTuning(recheck_secs=0.5),
)
"""Every kind of callback comes within a second or two."""


class Injected(Exception):
    """A bug in a callback."""


class Unguarded(BaseException):
    """A bug that no guard catches: it ends in the event loop, as without a guard."""


@dataclass
class Injector:
    """Makes the calls of the server, and raises where it was told to."""

    error: type[BaseException]
    calls: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    refuses: str = ""
    _due: tuple[str, bool, str] | None = None

    def __call__(self, kind: Callback, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        """Make a call."""
        self.calls[kind.value] += 1
        due = self._due
        if due is None or due[0] != kind.value or due[2] not in {"", getattr(callback, "__name__", "")}:
            callback(*args)
            return
        self._due = None
        self.raised[kind.value] += 1
        if due[1]:
            callback(*args)
        raise self.error(f"injected into a callback: {kind.value}")

    def obey(self, words: Sequence[str]) -> object:
        """Do what a command says: `raise KIND before|after [NAME]`, `refuse full|broken`, or `count`.

        Of callbacks of one kind the next one raises, or the next one with a name.
        """
        match words:
            case ["raise", kind, when, *name]:
                self._due = (Callback(kind).value, when == "after", "".join(name))
            case ["refuse", how]:
                self.refuses = how
            case _:
                pass
        return {"calls": dict(self.calls), "raised": dict(self.raised)}

    def listen(self, path: str) -> None:
        """Take commands, one connection after the other."""
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            while True:
                connection, _ = listening.accept()
                with connection:
                    words = connection.recv(1000).decode().split()
                    connection.sendall(json.dumps(self.obey(words)).encode())


class Disk:
    """The storage of the settings, on a disk that is full or broken once when it is told to be."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector

    def open(self, settings: Settings) -> Storage:
        """Open the storage."""
        opened = open_storage(settings)
        persist = opened.persist

        def refuse(group: Sequence[Change]) -> None:
            how, self._injector.refuses = self._injector.refuses, ""
            if how == "full":
                raise StorageFull("there is no room")
            if how:
                raise OSError("the disk is broken")
            persist(group)

        opened.persist = refuse  # type: ignore[method-assign]
        return opened


def main(arguments: Sequence[str]) -> int:
    """Serve on a port with the settings of the environment. Gives the exit code.

    The arguments are the socket, how to raise, and behind them the command that this program takes the place of.
    """
    path, how, port = arguments[0], arguments[1], arguments[-1]
    injector = Injector(Unguarded if how == UNGUARDED else Injected)
    Path(path).unlink(missing_ok=True)
    threading.Thread(target=injector.listen, args=(path,), daemon=True).start()

    def put_together(settings: Settings, storage: Storage) -> Application:
        application = assemble(settings, storage, QUICK, Clock())
        application.engine.faults.intercept = injector
        return application

    layered = load_layers(flags=[Given("server.port", port, Layer.FLAGS, "--port")])
    configure_logging(layered.log_filter, layered.settings.log.format)
    try:
        run(layered.settings, None, Disk(injector).open, put_together)
    except StorageFailed:
        return STORAGE_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
