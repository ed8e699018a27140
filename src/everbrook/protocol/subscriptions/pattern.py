"""Globs over stream paths (§6.2): `*` is one segment, `**` any number of segments, including none.

One pattern is matched by an NFA whose states are the bits of one number: the cost is one step for each segment of the
path, for any pattern. Many patterns are matched at once by a trie of their segments: the cost grows with the length of
the path, and not with the number of patterns.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Generic, TypeVar

ONE, MANY = "*", "**"

Value = TypeVar("Value")

# In the trie a path may be at every node behind a `**` at once. A pattern with more segments behind its first `**` is
# matched by itself, so that clients can't make the trie slow.
MAX_TRIE_SEGMENTS = 8
# The number of compiled patterns that are cached.
COMPILED_GLOBS = 256


def literal_prefix(pattern: str) -> str:
    """Return the common prefix of all paths that a pattern matches."""
    segments: list[str] = []
    for segment in pattern.split("/"):
        if segment in {ONE, MANY}:
            return "".join(f"{each}/" for each in segments) if segment == ONE else "/".join(segments)
        segments.append(segment)
    return pattern


def normal_form(pattern: str) -> tuple[str, ...]:
    """Return the segments of a pattern with as few consecutive wildcards as possible.

    A run of wildcards with at least one `**` matches at least as many segments as it has `*`.
    """
    segments: list[str] = []
    for wild, run in groupby(pattern.split("/"), key=lambda segment: segment in {ONE, MANY}):
        found = list(run)
        if wild:
            segments += [ONE] * found.count(ONE) + [MANY] * (MANY in found)
        else:
            segments += found
    return tuple(segments)


class Glob:
    """One pattern. Bit n of a state is set if the first n segments without the `**` are matched."""

    __slots__ = ("_any", "_final", "_literals", "_loops")

    def __init__(self, segments: tuple[str, ...]) -> None:
        """Take the segments of a pattern in its normal form."""
        literals: dict[str, int] = {}
        self._any = self._loops = 0
        bit = 1
        for segment in segments:
            if segment == MANY:
                self._loops |= bit
                continue
            if segment == ONE:
                self._any |= bit
            else:
                literals[segment] = literals.get(segment, 0) | bit
            bit <<= 1
        self._final = bit
        self._literals = {segment: bits | self._any for segment, bits in literals.items()}

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches a path."""
        state, literals, anything, loops = 1, self._literals, self._any, self._loops
        for segment in path.split("/"):
            state = (state & literals.get(segment, anything)) << 1 | state & loops
            if not state:
                return False
        return bool(state & self._final)


@lru_cache(COMPILED_GLOBS)
def compile_glob(pattern: str) -> Glob:
    """Return the compiled pattern, from a cache."""
    return Glob(normal_form(pattern))


class _Node(Generic[Value]):
    __slots__ = ("children", "many", "values")

    def __init__(self, *, many: bool) -> None:
        self.children: dict[str, _Node[Value]] = {}
        self.many = many
        self.values: dict[Value, None] = {}


class GlobTrie(Generic[Value]):
    """Patterns with a value each. `match` finds the values of the patterns that match a path."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node(many=False)
        self._apart: dict[tuple[str, ...], tuple[Glob, dict[Value, None]]] = {}

    def add(self, pattern: str, value: Value) -> None:
        """Add a pattern with a value."""
        segments = normal_form(pattern)
        if _is_long(segments):
            self._apart.setdefault(segments, (Glob(segments), {}))[1][value] = None
            return
        node = self._root
        for segment in segments:
            child = node.children.get(segment)
            if child is None:
                child = node.children[segment] = _Node(many=segment == MANY)
            node = child
        node.values[value] = None

    def remove(self, pattern: str, value: Value) -> None:
        """Remove a pattern with its value, and the nodes that only it needed."""
        form = normal_form(pattern)
        if _is_long(form):
            values = self._apart[form][1]
            del values[value]
            if not values:
                del self._apart[form]
            return
        nodes = [self._root]
        segments = list(form)
        for segment in segments:
            nodes.append(nodes[-1].children[segment])
        del nodes[-1].values[value]
        while segments and not nodes[-1].values and not nodes[-1].children:
            nodes.pop()
            del nodes[-1].children[segments.pop()]

    def match(self, path: str) -> list[Value]:
        """Return the values of the patterns that match a path."""
        apart = [value for glob, values in self._apart.values() if glob.matches(path) for value in values]
        active = _with_none([self._root])
        for segment in path.split("/"):
            active = _with_none([reached for node in active for reached in _steps(node, segment)])
            if not active:
                return apart
        return [value for node in active for value in node.values] + apart


def _is_long(segments: tuple[str, ...]) -> bool:
    return MANY in segments and len(segments) - segments.index(MANY) > MAX_TRIE_SEGMENTS


def _steps(node: _Node[Value], segment: str) -> Iterator[_Node[Value]]:
    """Yield the nodes to which a segment leads from a node."""
    for key in (segment, ONE):
        child = node.children.get(key)
        if child is not None:
            yield child
        if segment == ONE:
            break
    if node.many:
        yield node


def _with_none(nodes: list[_Node[Value]]) -> dict[_Node[Value], None]:
    """Add the nodes that are reached because `**` may match no segment."""
    reached: dict[_Node[Value], None] = {}
    while nodes:
        node = nodes.pop()
        if node not in reached:
            reached[node] = None
            many = node.children.get(MANY)
            if many is not None:
                nodes.append(many)
    return reached
