"""Requests as bytes, formatted once before the load begins wherever they don't change."""

from collections.abc import Mapping

from bench.processes import HOST


def format_request(
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Format a whole request; it asks for no compression and keeps its connection alive."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}"]
    if content_type is not None:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
