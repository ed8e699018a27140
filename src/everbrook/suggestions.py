"""Which known name a misspelt one was meant to be, for error messages."""

from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar, ignoring case, or None if none is similar."""
    from difflib import get_close_matches

    by_lower = {each.lower(): each for each in known}
    return next((by_lower[near] for near in get_close_matches(name.lower(), by_lower, n=1)), None)


def suggest(name: str, known: Iterable[str]) -> str:
    """Write the nearest name as the end of an error message; nothing if none is near."""
    nearest = find_nearest(name, known)
    return f"; did you mean {nearest}?" if nearest else ""
