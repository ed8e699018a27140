"""Kills: a server under load ends without warning, again and again, and must have kept its word each time."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from soak.client import Client, Unanswered
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.publishers import PolicyWriter, SnapshotPublisher
from soak.server import Server
from soak.writers import (
    BatchWriter,
    BulkWriter,
    Churner,
    IdempotentProducer,
    SequencedWriter,
    SharedStream,
    Writer,
    create,
)

MIN_LOAD_SECS, MAX_LOAD_SECS = 0.05, 1.2
PRODUCERS = 4
CHECK_EVERY = 3


@dataclass(frozen=True, slots=True)
class Survived:
    """What a run of kills came to."""

    kills: int
    messages: int
    slowest_start_secs: float


def fork(random: Random) -> Random:
    """Give a thread a source of its own: what it draws does not depend on the others."""
    return Random(random.getrandbits(64))  # noqa: S311 - it must replay


class Load:
    """All writers, and the threads that drive them from one kill to the next."""

    def __init__(self, port: int, random: Random) -> None:
        self._port = port
        self.shared = SharedStream("/v1/stream/soak/shared")
        producers = [IdempotentProducer(f"producer-{number}", self.shared, fork(random)) for number in range(PRODUCERS)]
        self.writers: Sequence[Writer] = (
            *producers,
            SequencedWriter("sequenced", fork(random)),
            BatchWriter("batches"),
            BulkWriter("bulk"),
            Churner("churn", fork(random)),
            SnapshotPublisher("small", fork(random), max_snapshot_bytes=2_000),
            SnapshotPublisher("large", fork(random), max_snapshot_bytes=6_000_000),
            PolicyWriter("policy", fork(random)),
        )
        self._failures: list[Exception] = []

    def prepare(self) -> None:
        """Make the stream that the producers share."""
        client = Client(self._port)
        create(client, self.shared.path)
        client.close()

    def run_until_killed(self, server: Server, secs: float) -> None:
        """Let every writer write, and kill the server in the midst of it."""
        stop = threading.Event()
        threads = [threading.Thread(target=self._drive, args=(writer, stop)) for writer in self.writers]
        for thread in threads:
            thread.start()
        stop.wait(secs)
        server.kill()
        stop.set()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _drive(self, writer: Writer, stop: threading.Event) -> None:
        client = Client(self._port)
        try:
            while not stop.is_set():
                writer.step(client)
        except Unanswered:
            pass  # the server is gone; the next thread takes it up from here
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
            self._failures.append(error)
            stop.set()
        finally:
            client.close()

    def check(self) -> int:
        """Hold everything that is stored against what the writers know."""
        client = Client(self._port)
        try:
            return self.shared.check(client) + sum(writer.check(client) for writer in self.writers)
        finally:
            client.close()


def soak_kills(
    mode: str, folder: Path, *, kills: int, seed: int, max_secs: float, under: Sequence[str] = ()
) -> Survived:
    """Kill a server `kills` times; stop early, between two kills, when the time is over."""
    random = Random(seed)  # noqa: S311 - it must replay
    server = Server(mode, folder, under=under)
    load = Load(server.port, random)
    begin, slowest, messages, done = time.monotonic(), 0.0, 0, 0
    with server:
        load.prepare()
        for done in range(1, kills + 1):
            load_secs = random.uniform(MIN_LOAD_SECS, MAX_LOAD_SECS)
            load.run_until_killed(server, load_secs)
            if done % CHECK_EVERY == 0:
                _require_sound(server, seed, done)
            start_secs = server.start()
            slowest = max(slowest, start_secs)
            messages = _checked(load, server, seed, done)
            timing = f"after {load_secs:.2f} s, up in {start_secs:.2f} s"
            say(f"{mode}: kill {done} of {kills} {timing}, {messages:,} messages")
            if time.monotonic() - begin > max_secs:
                break
        _stop_well(server, load, seed, done)
    return Survived(done, messages, slowest)


def _checked(load: Load, server: Server, seed: int, kill: int) -> int:
    try:
        return load.check()
    except Exception as error:
        raise PromiseBroken(f"after kill {kill} of seed {seed}: {error}\n{server.output}") from error


def _require_sound(server: Server, seed: int, kill: int) -> None:
    """See that neither the end of a server nor what it was doing then is taken for damage."""
    if damage := server.check():
        raise PromiseBroken(f"after kill {kill} of seed {seed} a check finds damage:\n{damage}")


def _stop_well(server: Server, load: Load, seed: int, kill: int) -> None:
    """End with a proper stop and start: what the kills left behind must survive that too."""
    code = server.stop()
    if code:
        raise PromiseBroken(f"the server ended with {code} when it was asked to:\n{server.output}")
    _require_sound(server, seed, kill)
    server.start()
    _checked(load, server, seed, kill)
