"""Making and removing the streams that a case needs, outside of what is measured."""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass

from bench.processes import HOST

_TIMEOUT_SECS = 30.0
_CREATED, _NO_CONTENT = 201, 204
_NONE: Mapping[str, str] = {}


class SetupFailed(Exception):
    """A server refused to create or delete a stream."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A stream as a case wants it before the load begins."""

    content_type: str
    messages: tuple[bytes, ...] = ()


def stream_path(name: str) -> str:
    """Where a stream of that name lives, on both servers."""
    return f"/v1/stream/{name}"


def create_stream(port: int, path: str, plan: StreamPlan, needed: Mapping[str, str] = _NONE) -> str:
    """Create a stream with its messages and return its tail offset."""
    headers = {"Content-Type": plan.content_type, **needed}
    tail = _request(port, "PUT", path, headers, None, _CREATED)
    for message in plan.messages:
        tail = _request(port, "POST", path, headers, message, _NO_CONTENT)
    return tail


def delete_stream(port: int, path: str, needed: Mapping[str, str] = _NONE) -> None:
    """Delete a stream and its data."""
    _request(port, "DELETE", path, dict(needed), None, _NO_CONTENT)


def _request(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None, expected: int) -> str:
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_SECS)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != expected:
        raise SetupFailed(f"{method} {path} must be answered with {expected}, got {answer.status}: {text[:200]!r}")
    return answer.getheader("Stream-Next-Offset", "")
