"""Globs over stream paths (§6.2): `*` is one segment, `**` any number of them, none included.

Many patterns are matched at once by a trie of their segments: what a path costs grows with its length, not with the
number of patterns.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

ONE, MANY = "*", "**"

Value = TypeVar("Value")


def literal_prefix(pattern: str) -> str:
    """Give what every path begins with that a pattern matches."""
    segments: list[str] = []
    for segment in pattern.split("/"):
        if segment in {ONE, MANY}:
            return "".join(f"{each}/" for each in segments) if segment == ONE else "/".join(segments)
        segments.append(segment)
    return pattern


class _Node(Generic[Value]):
    __slots__ = ("children", "many", "values")

    def __init__(self, *, many: bool) -> None:
        self.children: dict[str, _Node[Value]] = {}
        self.many = many
        self.values: dict[Value, None] = {}


class GlobTrie(Generic[Value]):
    """Patterns with a value each, and the values of those that match a path."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node(many=False)

    def add(self, pattern: str, value: Value) -> None:
        """Take a pattern in."""
        node = self._root
        for segment in pattern.split("/"):
            child = node.children.get(segment)
            if child is None:
                child = node.children[segment] = _Node(many=segment == MANY)
            node = child
        node.values[value] = None

    def remove(self, pattern: str, value: Value) -> None:
        """Let a pattern go, and what only it needed."""
        nodes = [self._root]
        segments = pattern.split("/")
        for segment in segments:
            nodes.append(nodes[-1].children[segment])
        del nodes[-1].values[value]
        while segments and not nodes[-1].values and not nodes[-1].children:
            nodes.pop()
            del nodes[-1].children[segments.pop()]

    def match(self, path: str) -> list[Value]:
        """Give the values of the patterns that match a path."""
        active = _with_none([self._root])
        for segment in path.split("/"):
            active = _with_none([reached for node in active for reached in _steps(node, segment)])
            if not active:
                return []
        return [value for node in active for value in node.values]


def _steps(node: _Node[Value], segment: str) -> Iterator[_Node[Value]]:
    """Give where a segment leads from a place in the trie."""
    for key in (segment, ONE):
        child = node.children.get(key)
        if child is not None:
            yield child
        if segment == ONE:
            break
    if node.many:
        yield node


def _with_none(nodes: list[_Node[Value]]) -> dict[_Node[Value], None]:
    """Add the places that are reached because `**` may stand for nothing."""
    reached: dict[_Node[Value], None] = {}
    while nodes:
        node = nodes.pop()
        if node not in reached:
            reached[node] = None
            many = node.children.get(MANY)
            if many is not None:
                nodes.append(many)
    return reached
