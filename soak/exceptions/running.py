"""The soak of exceptions: one is raised in every kind of callback of a server under load, one kind after the other.

After each of them every worker has to come further, a new client has to be served, and callbacks of that kind have to
go on; or the process ends with the exit code of a failed storage. What was acknowledged is there in the end.
"""

import json
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from everbrook.cli.exits import STORAGE_FAILED
from everbrook.engine.faults import Callback
from everbrook.server.auth.api_keys import ApiKeyFile, format_file, make_key
from soak.exceptions.injecting import UNGUARDED
from soak.exceptions.load import ROOT, TEXT, Failed, Load, Place
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import Server
from tests.kit.certificates import Authority

PATIENCE_SECS = 60.0
CONTROL_PATIENCE_SECS = 10.0
LOOK_SECS = 0.05
CONTROL = UNGUARDED

ENDING = frozenset({Callback.COMMIT, Callback.FAILURE})
"""Kinds after which the process may end."""

ENCRYPTED = frozenset({Callback.ACCEPT, Callback.CERTIFICATE})
"""Kinds that come in a server that encrypts; the others come in one that does not."""

NEVER = frozenset({Callback.OTHER})
"""It stands for exceptions outside all other kinds, and has no callbacks of its own."""


CONTROL_STEPS = {Callback.COMMIT: "_finish"}
"""Of kinds with several callbacks the one that must not be lost: without a guard that has to be noticed."""


@dataclass
class Contained:
    """What a run came to."""

    raised: int = 0
    restarts: int = 0
    messages: int = 0

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.raised} exceptions in callbacks harmed nothing else, {self.restarts} of them ended the process; "
            f"{self.messages:,} messages are there"
        )


class Scene:
    """A server, its load, and the socket by which exceptions are asked for."""

    def __init__(self, mode: str, folder: Path, *, encrypted: bool, control: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._socket = folder / "control"
        text, stored = make_key("admin:/", int(time.time()))
        keys = folder / "api-keys.json"
        keys.write_bytes(format_file(ApiKeyFile().add(stored)))
        keys.chmod(0o600)
        # systemd is told of every beat; that nobody listens is no failure.
        settings = {
            "DS_AUTH__API_KEYS_PATH": str(keys),
            "DS_SERVER__LONG_POLL_TIMEOUT_SECS": "0.5",
            "DS_SERVER__SSE_KEEPALIVE_SECS": "0.2",
            "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true",
            "NOTIFY_SOCKET": str(folder / "nobody"),
            "WATCHDOG_USEC": "1000000",
        }
        tls: ssl.SSLContext | None = None
        if encrypted:
            authority = Authority(folder)
            pair = authority.issue("soak")
            settings |= {"DS_TLS__CERT_PATH": str(pair.cert), "DS_TLS__KEY_PATH": str(pair.key)}
            tls = ssl.create_default_context(cafile=authority.ca)
        how = UNGUARDED if control else "guarded"
        self._patience_secs = CONTROL_PATIENCE_SECS if control else PATIENCE_SECS
        self._steps = CONTROL_STEPS if control else {}
        under = (sys.executable, "-m", "soak.exceptions.injecting", str(self._socket), how)
        self.server = Server(mode, folder / "store", under=under, settings=settings)
        self.load = Load(Place(self.server.port, f"Bearer {text}", tls))

    def command(self, words: str) -> dict[str, dict[str, int]]:
        """Give the program of the server a command. Gives what it has counted."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_SECS)
            connection.connect(str(self._socket))
            connection.sendall(words.encode())
            counted: dict[str, dict[str, int]] = json.loads(connection.makefile("rb").read())
            return counted

    def raise_in(self, kind: Callback, *, after: bool) -> None:
        """Have the next callback of a kind raise, and wait until that has happened."""
        before = self.command("count")["raised"].get(kind, 0)
        self.command(f"raise {kind} {'after' if after else 'before'} {self._steps.get(kind, '')}")
        if kind is Callback.ROLL_BACK:
            self.command("refuse full")
        if kind is Callback.FAILURE:
            self.command("refuse broken")

        def raised() -> bool:
            try:
                return self.command("count")["raised"].get(kind, 0) > before
            except (OSError, ValueError):
                return kind in ENDING and self.server.exit_code is not None

        self._wait(f"no callback of the kind {kind} came", raised, PATIENCE_SECS)

    def require_contained(self, kind: Callback) -> bool:
        """See that everything goes on, or that the server has ended as it should. Tells whether it has ended."""
        calls, counts = self._calls(kind), [worker.done for worker in self.load.workers]

        def gone_on() -> bool:
            if kind in ENDING and self.server.exit_code is not None:
                return True
            if any(worker.done <= count for worker, count in zip(self.load.workers, counts, strict=True)):
                return False
            # A full disk comes only when it is asked for.
            again = kind is Callback.ROLL_BACK or self._calls(kind) > calls
            return again and self._serves_a_stranger()

        try:
            self._wait("", gone_on, self._patience_secs)
        except PromiseBroken:
            raise PromiseBroken(f"after an exception in {kind}: {self._what_stands(kind, calls, counts)}") from None
        return self.server.exit_code is not None

    def _what_stands(self, kind: Callback, calls: int, counts: Iterable[int]) -> str:
        """Say what does not go on."""
        stands = [
            f"nobody could {worker.name} ({worker.last_failure or 'no failure'})"
            for worker, count in zip(self.load.workers, counts, strict=True)
            if worker.done <= count
        ]
        if self._calls(kind) <= calls:
            stands.append(f"no other callback of the kind {kind} came")
        ready = "ready" if self._is_ready() else "not ready"
        return f"the server is {ready}, and {'; '.join(stands) or 'a new client was not served'}\n{self.server.output}"

    def _calls(self, kind: Callback) -> int:
        with suppress(OSError, ValueError):
            return self.command("count")["calls"].get(kind, 0)
        return 0

    def _is_ready(self) -> bool:
        try:
            self.load.place.once("GET", "/readyz")
        except Failed:
            return False
        return True

    def _serves_a_stranger(self) -> bool:
        """Tell whether somebody who comes anew can write and read."""
        place, path = self.load.place, f"{ROOT}/stranger-{time.monotonic_ns()}"
        try:
            place.once("PUT", path, b"x", content_type=TEXT, stream_ttl="60")
            return self._is_ready() and place.once("GET", f"{path}?offset=-1") == b"x"
        except Failed:
            return False

    def _wait(self, reason: str, claim: Callable[[], bool], patience_secs: float) -> None:
        deadline = time.monotonic() + patience_secs
        while not claim():
            if time.monotonic() > deadline:
                raise PromiseBroken(f"{reason}\n{self.server.output}")
            time.sleep(LOOK_SECS)

    def start_again(self) -> None:
        """Start a server that has ended, if it did so with its exit code."""
        code = self.server.exit_code
        if code != STORAGE_FAILED:
            raise PromiseBroken(f"the server ended with {code}, not {STORAGE_FAILED}:\n{self.server.output}")
        self.server.start()


def soak_exceptions(
    mode: str,
    folder: Path,
    *,
    seed: int,
    kinds: Iterable[Callback] = tuple(Callback),
    encrypted: bool = False,
    control: bool = False,
) -> Contained:
    """Raise in callbacks of each kind, once before and once after the callback does its work, in an order of chance.

    With `control` nothing guards the callbacks, and none does its work: then `PromiseBroken` has to come.
    """
    random = Random(seed)  # noqa: S311 - it must replay
    moments = (False,) if control else (False, True)
    chosen = [(kind, after) for kind in kinds if _comes(kind, encrypted=encrypted) for after in moments]
    random.shuffle(chosen)
    contained, scene = Contained(), Scene(mode, folder, encrypted=encrypted, control=control)
    with scene.server:
        scene.load.begin()
        try:
            for kind, after in chosen:
                scene.raise_in(kind, after=after)
                contained.raised += 1
                if scene.require_contained(kind):
                    contained.restarts += 1
                    scene.start_again()
                say(f"{mode}: {kind} {'after' if after else 'before'} its work: contained")
        finally:
            scene.load.end()
        contained.messages = scene.load.verify()
    return contained


def _comes(kind: Callback, *, encrypted: bool) -> bool:
    if kind in NEVER:
        return False
    return kind in ENCRYPTED if encrypted else kind is not Callback.CERTIFICATE
