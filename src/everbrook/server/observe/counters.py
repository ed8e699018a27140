"""Counters that any part of the server may add to, by name and one label. The catalogue says which there are."""

COUNTED = {
    "slow_ended": ("kind", "Connections that were ended because the other side was too slow, by what it was slow at."),
    "connections_refused": ("reason", "Connections that were refused, by reason."),
    "reloads": ("outcome", "Times that certificates, keys and policy were to be read anew."),
}
"""The names that may be counted, each with its label and what it means."""


class Counters:
    """Numbers by name and label."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, name: str, label: str, count: int = 1) -> None:
        """Count something. `label` is one of a few words that the code has, never anything that a client sent."""
        if name not in COUNTED:
            raise KeyError(f"there is no counter {name!r}: name it in the table")
        key = (name, label)
        self._counts[key] = self._counts.get(key, 0) + count

    def of(self, name: str) -> dict[str, int]:
        """Give what was counted under a name, by label."""
        return {label: count for (counted, label), count in self._counts.items() if counted == name}
