"""Every part of the stack, in the order in which they start. A new one joins the list, and nothing else changes."""

import difflib
from collections.abc import Iterable

from everbrook.stack.errors import WrongParts
from everbrook.stack.parts.envoy import Envoy
from everbrook.stack.parts.heartbeat import Heartbeat
from everbrook.stack.parts.part import Part
from everbrook.stack.parts.pipeline import Pipeline
from everbrook.stack.parts.postgres import Database
from everbrook.stack.parts.server import Server

__all__ = ["OPTIONAL", "PARTS", "Part", "choose"]

PARTS: tuple[type[Part], ...] = (Server, Database, Pipeline, Heartbeat, Envoy)
# Those that only start when somebody asks for them.
OPTIONAL: frozenset[str] = frozenset()


def choose(
    added: Iterable[str] = (), left_out: Iterable[str] = (), parts: tuple[type[Part], ...] = PARTS
) -> list[type[Part]]:
    """Choose the parts to start: all but the optional ones, with those `added` and without those `left_out`."""
    added, left_out = set(added), set(left_out)
    names = [part.name for part in parts]
    for name in sorted(added | left_out):
        if name not in names:
            raise WrongParts(_unknown(name, names))
    if added & left_out:
        raise WrongParts(f"{', '.join(sorted(added & left_out))}: both with and without it")
    wanted = (set(names) - OPTIONAL | added) - left_out
    if not wanted:
        raise WrongParts("no part is left to start")
    return [part for part in parts if part.name in wanted]


def _unknown(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no part {name!r}: the parts are {', '.join(names)}{hint}"
