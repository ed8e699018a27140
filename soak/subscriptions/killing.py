"""Kills between append, wake, delivery, callback and ack: no event stays undelivered, no cursor moves back, no stale
generation is accepted.

A server is killed when something chosen has just begun or ended, a few milliseconds later, or at any time. Workers and
producers live on and find the next server at the same place.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from soak.client import Client, Refused, Unanswered
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import Server
from soak.subscriptions.moments import MOMENTS
from soak.subscriptions.scene import Ends, Scene
from soak.subscriptions.work import LEASE_TTL_MS, Subscriber

REPLAYS = 6
_PAUSE_SECS = 0.01
_SETTINGS = {"DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true", "DS_WEBHOOKS__TIMEOUT_SECS": "5"}


@dataclass(frozen=True, slots=True)
class Draining:
    """After how many kills everything has to come to rest, and how long that may take."""

    every: int = 5
    patience_secs: float = 60.0


DRAINING = Draining()


@dataclass
class Outlived:
    """What a run came to."""

    kills: int = 0
    at: Counter[str] = field(default_factory=Counter)
    events: int = 0
    deliveries: int = 0
    claims: int = 0
    acks: int = 0
    refused: int = 0
    slowest_start_secs: float = 0.0

    def __str__(self) -> str:
        """Say it in one line."""
        moments = ", ".join(f"{moment} {count}" for moment, count in sorted(self.at.items()))
        return (
            f"{self.kills} kills ({moments}), {self.events:,} deliveries of events due and made, "
            f"{self.deliveries:,} webhooks, {self.claims:,} claims, {self.acks:,} acks, "
            f"{self.refused:,} stale reports refused, slowest start {self.slowest_start_secs:.2f} s"
        )


class Crew:
    """The threads of producers and workers, from the first start to the end."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.producing = threading.Event()
        self._threads = [
            *(
                threading.Thread(target=self._drive, args=(each.step, self.producing))
                for each in scene.producers.values()
            ),
            *(threading.Thread(target=self._drive, args=(each.step, None)) for each in scene.claimers),
        ]

    def start(self) -> None:
        """Let them begin."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until they have seen that it is over; the server has to be gone by then."""
        for thread in self._threads:
            thread.join()

    def _drive(self, step: Callable[[Client], None], allowed: threading.Event | None) -> None:
        place = self._scene.place
        with closing(Client(place.port)) as client:
            while not place.stop.is_set():
                if allowed and not allowed.wait(_PAUSE_SECS):
                    continue
                try:
                    step(client)
                except Unanswered:
                    time.sleep(_PAUSE_SECS)  # until there is a server again
                except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
                    place.fail(error)
                    break


def soak_subscriptions(
    mode: str,
    folder: Path,
    *,
    kills: int,
    seed: int,
    max_secs: float,
    draining: Draining = DRAINING,
    under: Sequence[str] = (),
) -> Outlived:
    """Kill a server `kills` times; stop early, between two kills, when the time is over."""
    random = Random(seed)  # noqa: S311 - it must replay
    outlived, begin = Outlived(), time.monotonic()
    server = Server(mode, folder, under=under, settings=_SETTINGS)
    scene = Scene(server.port, random)
    crew = Crew(scene)
    try:
        with server, _blamed(server, outlived):
            scene.prepare()
            crew.start()
            while outlived.kills < kills and time.monotonic() - begin < max_secs:
                _survive(server, scene, crew, random, outlived)
                if outlived.kills % draining.every == 0:
                    _drain(server, scene, crew, outlived, draining)
                say(f"{mode}: kill {outlived.kills} of {kills}, {scene.tally}")
            _drain(server, scene, crew, outlived, draining)
            scene.place.stop.set()
    finally:
        scene.place.stop.set()
        crew.join()
        scene.close()
    return _sum_up(scene, outlived)


@contextmanager
def _blamed(server: Server, outlived: Outlived) -> Iterator[None]:
    """Say of a broken promise after which kill it showed, and what the servers have printed."""
    try:
        yield
    except (PromiseBroken, Refused, Unanswered) as error:
        raise PromiseBroken(f"after kill {outlived.kills}: {error}\n{server.output}") from error


def _sum_up(scene: Scene, outlived: Outlived) -> Outlived:
    tally = scene.tally
    outlived.deliveries, outlived.claims = tally.deliveries, tally.claims
    outlived.acks, outlived.refused = tally.acks, tally.refused
    return outlived


def _survive(server: Server, scene: Scene, crew: Crew, random: Random, outlived: Outlived) -> None:
    crew.producing.set()
    moment = random.choice(MOMENTS)
    came = scene.place.moments.wait(moment, random)
    server.kill()
    outlived.kills += 1
    outlived.at[moment if came else "any"] += 1
    outlived.slowest_start_secs = max(outlived.slowest_start_secs, server.start())
    _check(server, scene, random)


def _check(server: Server, scene: Scene, random: Random) -> None:
    """Hold every cursor against what was acknowledged, and show that old generations are refused."""
    with closing(Client(server.port)) as client:
        for subscriber in scene.subscribers:
            check_cursors(client, subscriber)
            for _ in range(REPLAYS):
                scene.tally.refused += replay(client, subscriber, random)
        scene.check_wake_streams(client)
    _raise_failures(scene)


def _raise_failures(scene: Scene) -> None:
    if scene.place.failures:
        raise PromiseBroken(str(scene.place.failures[0])) from scene.place.failures[0]


def check_cursors(client: Client, subscriber: Subscriber) -> dict[str, int]:
    """See that no cursor lies before what was acknowledged, nor beyond what anybody acknowledged."""
    confirmed = subscriber.cursors.confirmed()
    cursors = subscriber.read_cursors(client)
    subscriber.cursors.check(confirmed, cursors)
    return cursors


def replay(client: Client, subscriber: Subscriber, random: Random) -> bool:
    """Report with a grant that is over, in one of the ways there are; tells whether there was one."""
    stale, newest = subscriber.cursors.stale(random), subscriber.cursors.newest()
    if stale is None or newest is None:
        return False
    said, shown = (stale, stale)
    if stale.generation < newest.generation:
        said, shown = random.choice(((stale, stale), (stale, newest), (newest, stale)))
    what = random.choice(("ack", "release")) if subscriber.pull else "callback"
    body = {"wake_id": said.wake_id, "generation": said.generation, "done": random.choice((True, False))}
    authorization = f"Bearer {shown.token}"
    answer = client.request("POST", f"{subscriber.url}/{what}", json.dumps(body).encode(), Authorization=authorization)
    if answer.status not in {401, 404} and not (answer.status == 409 and b'"FENCED"' in answer.body):  # noqa: PLR2004
        raise PromiseBroken(
            f"{what} of {subscriber.id} with {said} and the token of {shown}, the newest being {newest}: "
            f"answered with {answer.status}: {answer.body!r}"
        )
    return True


def _drain(server: Server, scene: Scene, crew: Crew, outlived: Outlived, draining: Draining) -> None:
    """Let the producers rest and the workers behave, until everything is acknowledged. Whoever is never woken shows."""
    crew.producing.clear()
    scene.place.gentle = True
    time.sleep(_PAUSE_SECS)
    with closing(Client(server.port)) as client:
        ends = scene.check_streams(client)
        _wait_until_acked(client, scene, ends, draining.patience_secs)
    outlived.events = sum(
        subscriber.cursors.check_seen(path, ends[subscriber.root, path])
        for subscriber in scene.subscribers
        for path in scene.covered(subscriber, ends)
    )
    scene.place.gentle = False


def _wait_until_acked(client: Client, scene: Scene, ends: Ends, patience_secs: float) -> None:
    deadline = time.monotonic() + patience_secs
    while behind := _behind(client, scene, ends):
        _raise_failures(scene)
        if time.monotonic() > deadline:
            raise PromiseBroken(f"nobody is woken for what is left after {patience_secs:g} s: {behind[:5]}")
        time.sleep(LEASE_TTL_MS / 20_000)


def _behind(client: Client, scene: Scene, ends: Ends) -> list[str]:
    """Give what is not acknowledged yet."""
    behind = []
    for subscriber in scene.subscribers:
        cursors = check_cursors(client, subscriber)
        for path in scene.covered(subscriber, ends):
            tail = max(ends[subscriber.root, path], default=0)
            if max(0, cursors.get(path, 0)) < tail:
                behind.append(f"{subscriber.id} is at {cursors.get(path)} of {path}, which ends at {tail}")
    return behind
