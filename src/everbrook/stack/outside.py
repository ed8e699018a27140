"""What the parts need and the stack does not start: a server or a Postgres of somebody else's, known by its URL."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from everbrook.stack.errors import NotReady, WrongParts
from everbrook.stack.parts import Part
from everbrook.stack.parts.server import answers
from everbrook.stack.preparing import make_streams, make_tables
from everbrook.stack.site import POSTGRES_URL, SERVER_URL, Site


class Outside(NamedTuple):
    """The variable that says where it is, and what makes sure that it is there and holds what the parts need."""

    variable: str
    prepare: Callable[[Site], None]


def _prepare_server(site: Site) -> None:
    if not answers(site.server_url):
        raise NotReady(f"no server answers at {site.server_url}, which {SERVER_URL} names")
    make_streams(site.server_url)


def _prepare_postgres(site: Site) -> None:
    make_tables(site.postgres_url)


PLACES = {"server": Outside(SERVER_URL, _prepare_server), "postgres": Outside(POSTGRES_URL, _prepare_postgres)}


def outside(parts: Sequence[type[Part]]) -> dict[str, str]:
    """Give what the chosen parts need and is not among them, each with the part that needs it."""
    chosen = {part.name for part in parts}
    return {need: part.name for part in reversed(parts) for need in part.needs if need not in chosen}


def require_places(parts: Sequence[type[Part]], environment: Mapping[str, str]) -> None:
    """Refuse parts that need what is neither among them nor named by a variable."""
    for need, needy in outside(parts).items():
        place = PLACES.get(need)
        if place is None:
            raise WrongParts(f"{needy} needs {need}: leave it in")
        if not environment.get(place.variable):
            raise WrongParts(f"{needy} needs {need}: leave it in, or say with {place.variable} where one is")
