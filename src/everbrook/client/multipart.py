"""Decoding of bootstraps: parts of a multipart entity, received in arbitrary pieces (002 §3.2, RFC 2046 §5.1)."""

import re

from msgspec import Struct

from everbrook.client.errors import InvalidAnswer

_BOUNDARY = re.compile(r'boundary=(?:"([^"]+)"|([^;\s]+))', re.IGNORECASE)


class BodyPart(Struct, frozen=True):
    """One part and its content type."""

    content_type: str
    data: bytes


class PartDecoder:
    """Decodes the parts of one entity from received bytes."""

    def __init__(self, content_type: str) -> None:
        """Read an entity whose content type names the boundary."""
        found = _BOUNDARY.search(content_type)
        if not content_type.lower().startswith("multipart/") or found is None:
            raise InvalidAnswer(f"a bootstrap must be multipart/mixed with a boundary, got {content_type!r}")
        self._delimiter = b"\r\n--" + (found[1] or found[2]).encode()
        # The first delimiter needs no line end before it.
        self._buffer = bytearray(b"\r\n")
        self._began = False
        self.ended = False

    def feed(self, received: bytes) -> list[BodyPart]:
        """Take received bytes, and return the parts that they complete."""
        if self.ended:
            return []
        search = max(0, len(self._buffer) - len(self._delimiter) - 2)
        self._buffer += received
        parts: list[BodyPart] = []
        start = 0
        # The next two bytes tell whether it is a delimiter, and the last one. Until they arrive, it is found again.
        while (at := self._buffer.find(self._delimiter, search)) >= 0:
            search = at + len(self._delimiter)
            behind = bytes(self._buffer[search : search + 2])
            if behind not in {b"--", b"\r\n"}:
                continue
            if self._began:
                parts.append(_part(bytes(self._buffer[start:at])))
            self._began, start = True, search
            if behind == b"--":
                self.ended = True
                break
        del self._buffer[:start]
        return parts


def _part(text: bytes) -> BodyPart:
    head, found, data = text.partition(b"\r\n\r\n")
    if not found:
        raise InvalidAnswer("a part of the bootstrap has no empty line after its headers")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-type":
            return BodyPart(value.strip().decode("latin-1"), data)
    return BodyPart("", data)
