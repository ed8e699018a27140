"""Multipart bodies as RFC 2046 writes them, read twice: by a strict parser, and by the standard library's for mail.

The strict one takes nothing that the grammar does not need: no preamble, no epilogue, no bare line feeds, no header but
the content type. A body that both read alike means the same to everyone.
"""

import re
from email import message_from_bytes
from email.message import Message
from email.policy import HTTP

from msgspec import Struct

CRLF = b"\r\n"

# RFC 2046 §5.1.1 allows more characters, but 002 §3.2 writes a token: none that would need quotes.
_BOUNDARY = re.compile(r"multipart/mixed; ?boundary=([0-9A-Za-z'+_.-]{1,70})")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\x21-\x7e][\x20-\x7e]*)")


class MalformedMultipart(ValueError):
    """A body that is not what RFC 2046 describes."""


class Part(Struct, frozen=True):
    """One part: its content type and its bytes."""

    content_type: str
    body: bytes


def parse_boundary(content_type: str) -> bytes:
    """Take the boundary out of a Content-Type."""
    found = _BOUNDARY.fullmatch(content_type)
    if not found:
        raise MalformedMultipart(f"not 'multipart/mixed; boundary=<token>': {content_type!r}")
    return found[1].encode()


def parse_multipart(content_type: str, body: bytes) -> list[Part]:
    """Split a body strictly."""
    delimiter = b"--" + parse_boundary(content_type)
    if not body.startswith(delimiter + CRLF):
        raise MalformedMultipart(f"the body begins with {body[:80]!r}, not with its delimiter")
    first, *rest = (CRLF + body).split(CRLF + delimiter)
    *pieces, end = rest
    if first or end not in {b"--", b"--" + CRLF}:
        raise MalformedMultipart(f"the body ends with {body[-80:]!r}, not with its closing delimiter")
    return [_parse_part(piece) for piece in pieces]


def _parse_part(piece: bytes) -> Part:
    if not piece.startswith(CRLF):
        raise MalformedMultipart(f"a delimiter line goes on with {piece[:40]!r}")
    head, separator, body = piece.partition(CRLF + CRLF)
    if not separator:
        raise MalformedMultipart(f"a part has no empty line after its headers: {piece[:80]!r}")
    headers = _parse_headers(head.split(CRLF)[1:])
    if set(headers) != {"content-type"}:
        raise MalformedMultipart(f"a part has exactly one header, its Content-Type; got {sorted(headers)}")
    return Part(headers["content-type"], body)


def _parse_headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if not found or found[1].decode().lower() in headers:
            raise MalformedMultipart(f"not a header, or one given twice: {line!r}")
        headers[found[1].decode().lower()] = found[2].decode()
    return headers


def parse_as_mail(content_type: str, body: bytes) -> list[Part]:
    """Split a body as the standard library understands it."""
    message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body, policy=HTTP)
    if message.defects or not message.is_multipart():
        raise MalformedMultipart(f"the standard library found {message.defects or 'no parts'}")
    return [_mail_part(part) for part in message.get_payload() if isinstance(part, Message)]


def _mail_part(part: "Message[str, str]") -> Part:
    body = part.get_payload(decode=True)
    if not isinstance(body, bytes):
        raise MalformedMultipart(f"a part of {part.get_content_type()} was read as something that has parts")
    return Part(str(part["content-type"]), body)


def parse_bootstrap(content_type: str, body: bytes) -> list[Part]:
    """Split a body both ways, which must come to the same."""
    parts, mailed = parse_multipart(content_type, body), parse_as_mail(content_type, body)
    if [part.body for part in parts] != [part.body for part in mailed]:
        raise MalformedMultipart(f"read strictly the parts are {parts}, read as mail {mailed}")
    return parts
