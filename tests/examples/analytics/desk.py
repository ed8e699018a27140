"""Where a test sits: it appends events to sessions of its own, and looks at what was counted."""

from typing import Any

from everbrook import Client
from examples.analytics.job import Places
from examples.analytics.sessions import Appended

Rows = dict[str, dict[str, Any]]


class Desk:
    """The sessions and the result of one test."""

    def __init__(self, client: Client, places: Places) -> None:
        self._client = client
        self._places = places

    def append(self, session: str, *events: Any) -> None:  # noqa: ANN401 - also what is no event
        """Append events to a session, which is created if it is not there."""
        stream = self._client.stream(self._places.sessions.replace("*", session))
        stream.create()
        stream.extend(events)

    def play(self, events: list[Appended]) -> None:
        """Append generated events, each session at once."""
        by_session: dict[str, list[Any]] = {}
        for each in events:
            by_session.setdefault(each.session.rpartition("/")[2], []).append(each.event)
        for session, told in by_session.items():
            self.append(session, *told)

    def counted(self) -> dict[str, Rows]:
        """Give the rows that a page would show, by type and key."""
        with self._client.stream(self._places.analytics).materialise() as state:
            return {type_: dict(state[type_]) for type_ in ("minute", "funnel")}

    def minute(self, key: str) -> dict[str, Any]:
        """Give the row of a minute. One that was never written is empty."""
        return self.counted()["minute"].get(key, {})

    def written(self) -> int:
        """Tell how many messages the result has, those that were replaced included."""
        return len(self._client.stream(self._places.analytics).read().all())
