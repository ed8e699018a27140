"""Decodes refusals into errors of the same classes that the server raises.

An Everbrook server names each refusal by a code. Refusals of other servers are classified by status and headers.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from everbrook.protocol.errors import (
    AlreadyClaimed,
    BadRequest,
    Conflict,
    Forbidden,
    HeadersTooLarge,
    MethodNotAllowed,
    OffsetGone,
    PayloadTooLarge,
    PreconditionFailed,
    ProtocolError,
    RequestTimeout,
    SequenceGap,
    StaleEpoch,
    StreamClosed,
    StreamNotFound,
    Unauthorized,
    Unavailable,
)

_SHOWN_CHARACTERS = 1000
# The refusals that a status alone identifies. Others, such as 429 and 500, become a plain `ProtocolError`.
_GENERAL: dict[int, type[ProtocolError]] = {
    kind.status: kind
    for kind in (
        BadRequest,
        Unauthorized,
        StreamNotFound,
        MethodNotAllowed,
        RequestTimeout,
        OffsetGone,
        PreconditionFailed,
        PayloadTooLarge,
        HeadersTooLarge,
        Unavailable,
    )
}


class _Document(Struct):
    """The body of a refusal: a problem document, the `error` object of subscriptions, or anything else."""

    code: Any = None
    detail: Any = None
    message: Any = None
    title: Any = None
    error: Any = None
    current_holder: Any = None
    generation: Any = None


def refusal_of(status: int, headers: Mapping[str, str], body: bytes, asked: str) -> ProtocolError:
    """Make the error of a refused request. Its message begins with the request, which is `asked`."""
    document = _document(body)
    code = _text(document.code)
    kind = _named(code, status)
    if kind is not None:
        code = kind.code
    else:
        kind = _kind_of(status, headers)
        code = code or (f"http_{status}" if kind is ProtocolError else kind.code)
    said = _text(document.detail) or _text(document.message) or _text(document.error) or _text(document.title)
    detail = said[:_SHOWN_CHARACTERS] or _shown(body) or f"the server answered {status}"
    refusal = kind.__new__(kind, f"{asked}: {detail}")
    refusal.detail = detail
    refusal.headers = tuple((name.encode(), value.encode()) for name, value in headers.items())
    refusal.status = status
    refusal.code = code
    if isinstance(refusal, AlreadyClaimed):
        refusal.holder = _text(document.current_holder)
        refusal.generation = document.generation if isinstance(document.generation, int) else 0
    return refusal


def header_of(refusal: ProtocolError, name: str) -> str | None:
    """Return a header that came with a refusal."""
    wanted = name.lower().encode()
    return next((value.decode() for header, value in refusal.headers if header.lower() == wanted), None)


def _named(code: str, status: int) -> type[ProtocolError] | None:
    """Find the class of a code. With another status, it is a code of another server and means something else."""
    kinds = (ProtocolError.by_code.get(name) for name in (code, code.lower()))
    return next((kind for kind in kinds if kind is not None and kind.status == status), None)


def _kind_of(status: int, headers: Mapping[str, str]) -> type[ProtocolError]:
    """Choose the class of a refusal without a code by its status and headers."""
    given = {name.lower() for name in headers}
    if status == Conflict.status:
        if "producer-expected-seq" in given:
            return SequenceGap
        return StreamClosed if "stream-closed" in given else Conflict
    if status == StaleEpoch.status:
        return StaleEpoch if "producer-epoch" in given else Forbidden
    return _GENERAL.get(status, ProtocolError)


def _document(body: bytes) -> _Document:
    try:
        found = msgspec.json.decode(body, type=_Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _Document()
    if not isinstance(found.error, dict):
        return found
    return msgspec.convert(found.error, _Document)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _shown(body: bytes) -> str:
    text = body[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else " ".join(text.split())[:_SHOWN_CHARACTERS]
