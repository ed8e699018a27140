"""A stream of what queries and jobs do, for pages and for `pipeline status`. It needs no Spark."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from everbrook.client.errors import ClientError
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.state_changes import Remove, Set, format_state
from everbrook.spark.connection import connect
from everbrook.spark.options import ServerOptions

_CUT_AFTER = 10_000
"""So many messages may stand behind the last snapshot of a stream of progress."""


class ProgressStream:
    """A stream of what queries and jobs do, as changes of the State protocol.

    What can't be appended is dropped: what is done matters more than what is told of it. The history is cut now and
    then, so that whoever looks at it reads little.
    """

    def __init__(self, name: str, server: ServerOptions) -> None:
        self._name = name
        self._server = server
        self._uncut = _CUT_AFTER  # the history of earlier runs is cut with the first message

    def create(self) -> None:
        """Create it, if it is not there."""
        connect(self._server).stream(self._name).create()

    def created(self) -> bool:
        """Create it, and tell whether it is there. A server that does not answer now is asked again later."""
        try:
            self.create()
        except (ProtocolError, ClientError):
            return False
        return True

    def set(self, kind: str, key: str, value: Mapping[str, Any]) -> None:
        """Tell what an entity is now."""
        self.append([format_state(Set(kind, key, dict(value), timestamp=now()))])

    def remove(self, kind: str, key: str) -> None:
        """Tell that an entity is no more."""
        self.append([format_state(Remove(kind, key, timestamp=now()))])

    def append(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Append messages, and tell whether they are there."""
        try:
            connect(self._server).stream(self._name, "application/json").extend(messages)
        except (ProtocolError, ClientError):
            return False
        self._uncut += len(messages)
        return True

    def cut(self) -> None:
        """Replace a long history by a snapshot of what it led to."""
        if self._uncut < _CUT_AFTER:
            return
        try:
            with connect(self._server).stream(self._name).materialise(on_invalid=_pass_by) as state:
                state.publish()
        except (ProtocolError, ClientError):
            return  # a server without snapshots keeps it all
        finally:
            self._uncut = 0


def _pass_by(_error: Exception) -> None:
    pass


def now() -> str:
    """Write the time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
