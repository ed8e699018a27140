"""JSON mode: message boundaries in `application/json` streams (§9.1).

Messages are validated and split, never re-serialised: number spelling, key order, duplicate keys, inner whitespace and
lone surrogates come back byte for byte. Each message is stored with a trailing comma, so that any run of messages is
one slice of the stored bytes between two brackets.
"""

from itertools import accumulate

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from everbrook.protocol.errors import BatchTooLarge, InvalidJson
from everbrook.protocol.nesting import MAX_LEVELS, any_too_deep, too_deep
from everbrook.protocol.surrogates import WHITESPACE, cut_hidden, may_have_lone, split_hidden

SEPARATOR = b","
MAX_BATCH_VALUES = 1_000_000

_value = Decoder(Raw)
_array = Decoder(list[Raw])


def split_messages(body: bytes) -> list[Raw]:
    """Validate a body and flatten one level of array into messages (§9.1.2)."""
    is_array = body.lstrip(WHITESPACE).startswith(b"[")
    try:
        body.decode()
        if is_array:
            _check_values(body)
            messages = _array.decode(body)
            deep = any_too_deep(messages)
        else:
            messages = [_value.decode(body)]
            deep = too_deep(body)
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body must be JSON in UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise _too_deep() from None
    except DecodeError as error:
        messages = _split_refused(body, error, is_array=is_array)
        deep = any_too_deep(messages)
    if deep:
        raise _too_deep()
    return messages


def _split_refused(body: bytes, error: DecodeError, *, is_array: bool) -> list[Raw]:
    """Split what was refused for its lone surrogates alone, which are valid JSON (gap G-03)."""
    try:
        if may_have_lone(body):
            return split_hidden(body) if is_array else [cut_hidden(body)]
    except RecursionError:
        raise _too_deep() from None
    except DecodeError as other:
        error = other
    raise InvalidJson(f"the body must be JSON: {error}") from None


def _too_deep() -> InvalidJson:
    return InvalidJson(f"the body must be JSON nested less deeply: a message has at most {MAX_LEVELS} levels")


def _check_values(body: bytes) -> None:
    """Refuse a batch whose splitting would hold everybody else up. Its commas bound the messages in it."""
    if len(body) > MAX_BATCH_VALUES and body.count(SEPARATOR) >= MAX_BATCH_VALUES:
        raise BatchTooLarge(f"a batch holds at most {MAX_BATCH_VALUES} values; send it in several appends")


def pack_messages(body: bytes, tail: int) -> tuple[bytes, tuple[int, ...]]:
    """Turn a body appended at `tail` into stored bytes and the offsets at which its messages end."""
    messages = split_messages(body)
    if not messages:
        return b"", ()
    between = len(SEPARATOR)
    ends = accumulate([len(message) + between for message in messages], initial=tail)
    return SEPARATOR.join(messages) + SEPARATOR, tuple(ends)[1:]


def join_messages(stored: bytes) -> bytes:
    """Present a run of stored messages as one JSON array (§9.1.5)."""
    return b"[%b]" % stored[:-1]


def joined_bytes(stored_bytes: int) -> int:
    """Give the size of the array that a run of stored messages makes: two brackets, less the last separator."""
    return stored_bytes + 2 - len(SEPARATOR)


def join_part(part: bytes, *, first: bool, last: bool) -> bytes:
    """Present a part of a run of stored messages as the part of the array that it makes."""
    if last:
        part = part[: -len(SEPARATOR)] + b"]"
    return b"[" + part if first else part
