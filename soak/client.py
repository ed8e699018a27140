"""A client that says exactly what it knows: an answer, or that there was none and the outcome is open."""

import http.client
from collections.abc import Iterator
from dataclasses import dataclass

from soak.server import HOST

TIMEOUT_SECS = 30.0


class Unanswered(Exception):
    """The connection ended before the answer: what was asked for may have been done, or not."""


class Refused(Exception):
    """An answer that nothing in the run explains."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. Header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def next_offset(self) -> int:
        """Where the stream goes on."""
        return int(self.headers["stream-next-offset"])


class Client:
    """One connection, opened when it is needed and again after it broke."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_SECS)

    def request(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> Answer:
        """Ask once. Underscores in header names stand for hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            self._connection.request(method, path, body, named)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unanswered(f"{method} {path}: {error}") from error
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)

    def expect(
        self, statuses: set[int], method: str, path: str, body: bytes | None = None, /, **headers: str
    ) -> Answer:
        """Ask once, and take no other answer than these."""
        answer = self.request(method, path, body, **headers)
        if answer.status not in statuses:
            raise Refused(
                f"{method} {path} must be answered with one of {statuses}, got {answer.status}: {answer.body!r}"
            )
        return answer

    def pages(self, path: str, offset: str = "-1") -> Iterator[Answer]:
        """Read a stream page by page until it is up to date. Offsets have to increase."""
        last = -1
        while True:
            page = self.expect({200}, "GET", f"{path}?offset={offset}")
            if page.next_offset < last or (page.body not in {b"", b"[]"} and page.next_offset == last):
                raise Refused(f"{path}: an offset of {page.next_offset} after {last}")
            yield page
            last, offset = page.next_offset, page.headers["stream-next-offset"]
            if page.headers.get("stream-up-to-date") == "true":
                return

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()
