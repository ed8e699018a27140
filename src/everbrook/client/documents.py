"""JSON documents that a server describes things with: what is not as it should be is the server's fault, not a bug."""

from typing import TypeVar

import msgspec

from everbrook.client.errors import InvalidAnswer

T = TypeVar("T")


def decode_document(body: bytes, type_: type[T], where: object) -> T:
    """Read a document that came from a URL."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(f"{where} did not answer as it should: {error}") from error
