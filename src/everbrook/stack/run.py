"""The run of a stack, from its lock to the end of its last process, and the preparation of servers that run elsewhere.

The first signal stops the parts in order, a second one at once.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from everbrook.stack.errors import DataUnusable, NotReady, WrongParts
from everbrook.stack.leftovers import Processes
from everbrook.stack.parts import Part, Report, answers
from everbrook.stack.schema import make_streams, make_tables
from everbrook.stack.site import POSTGRES_URL, SERVER_URL, Site, locked
from everbrook.stack.supervisor import Supervisor

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(site: Site, chosen: Sequence[type[Part]], report: Report) -> None:
    """Run a stack until SIGINT or SIGTERM."""
    with locked(site.data_dir):
        try:
            site.logs.mkdir(exist_ok=True)
            processes = Processes(site.data_dir)
            processes.end_leftovers()
        except OSError as error:
            raise DataUnusable(f"{site.data_dir} can't be written to: {error.strerror}") from error
        for need in outside(chosen):
            PLACES[need].prepare(site)
        supervisor = Supervisor([part(site) for part in chosen], processes, report)
        with _stopping(supervisor) as asked:
            supervisor.run(lambda: bool(asked))


@contextmanager
def _stopping(supervisor: Supervisor) -> Iterator[list[int]]:
    """Collect the signals that ask the stack to stop. A second one kills all parts at once."""
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            supervisor.kill()
            os._exit(1)

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Outside(NamedTuple):
    """A server or a Postgres that runs elsewhere: the variable with its URL, and the function that prepares it."""

    variable: str
    prepare: Callable[[Site], None]


def _prepare_server(site: Site) -> None:
    if not answers(site.server_url):
        raise NotReady(f"no server responds at {site.server_url} ({SERVER_URL})")
    make_streams(site.server_url)


def _prepare_postgres(site: Site) -> None:
    make_tables(site.postgres_url)


PLACES = {"server": Outside(SERVER_URL, _prepare_server), "postgres": Outside(POSTGRES_URL, _prepare_postgres)}


def outside(parts: Sequence[type[Part]]) -> dict[str, str]:
    """Return the needed parts that are not chosen, each with the part that needs it."""
    chosen = {part.name for part in parts}
    return {need: part.name for part in reversed(parts) for need in part.needs if need not in chosen}


def require_places(parts: Sequence[type[Part]], environment: Mapping[str, str]) -> None:
    """Refuse parts whose needs are neither chosen nor named by a variable."""
    for need, needy in outside(parts).items():
        place = PLACES.get(need)
        if place is None:
            raise WrongParts(f"{needy} needs {need}: leave it in")
        if not environment.get(place.variable):
            raise WrongParts(f"{needy} needs {need}: leave it in, or say with {place.variable} where one is")
