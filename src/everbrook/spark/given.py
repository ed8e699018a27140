"""Options as Spark hands them over: text by names whose case does not matter.

Each is taken once, by the name of the documentation; what nobody takes is a mistake that its author is told of.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from everbrook.suggestions import find_nearest

T = TypeVar("T")

_YES, _NO = {"true", "1", "yes"}, {"false", "0", "no"}


class InvalidOption(ValueError):
    """An option of the source or the sink makes no sense."""


class GivenOptions:
    """The options of one source or sink, and which of them were asked for."""

    def __init__(self, options: Mapping[str, str], *, of: str) -> None:
        """Take options of `of`, which is the source or the sink."""
        self._given = {name.lower(): value for name, value in options.items()}
        self._of = of
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        """Take an option. None if it was not given."""
        self._known.append(name)
        return self._given.get(name.lower())

    def parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Take an option whose text `parse` reads. What it refuses with a ValueError is told with the option's name."""
        text = self.text(name)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise InvalidOption(f"the option {name} {error}, got {text!r}") from error

    def optional(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Take an option that has no default."""
        return self.parsed(name, parse, None)

    def below(self, prefix: str) -> dict[str, str]:
        """Take all options whose names begin with a prefix, by the rest of their names."""
        self._known.append(f"{prefix}*")
        return {name[len(prefix) :]: value for name, value in self._given.items() if name.startswith(prefix.lower())}

    def ignore(self, names: Iterable[str]) -> None:
        """Pass over options that are Spark's own."""
        for name in names:
            self._given.pop(name.lower(), None)

    def require_known(self) -> None:
        """Refuse options that nobody has taken."""
        taken = {name.lower() for name in self._known}
        prefixes = tuple(name[:-1] for name in taken if name.endswith("*"))
        for name in self._given:
            if name not in taken and not (prefixes and name.startswith(prefixes)):
                raise InvalidOption(f"the {self._of} has no option {name!r}. {self._hint(name)}")

    def _hint(self, name: str) -> str:
        nearest = find_nearest(name, self._known)
        if nearest:
            return f"Did you mean {nearest}?"
        return f"It has {', '.join(sorted(self._known))}"


def parse_flag(text: str) -> bool:
    """Read true or false."""
    if text.lower() in _YES | _NO:
        return text.lower() in _YES
    raise ValueError("must be true or false")


def parse_count(text: str) -> int:
    """Read a number of things, of which there is at least one."""
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError("must be a whole number above 0")


def parse_names(text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if all(names):
        return tuple(dict.fromkeys(names))
    raise ValueError("must be names with commas between them")


def one_of(*allowed: str) -> Callable[[str], str]:
    """Make a parser of words, whose case does not matter."""
    by_lower = {word.lower(): word for word in allowed}

    def parse(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"must be {', '.join(allowed[:-1])} or {allowed[-1]}")
        return by_lower[text.lower()]

    return parse
