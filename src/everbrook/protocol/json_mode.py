"""JSON mode: message boundaries in `application/json` streams (§9.1).

Messages are validated and split, never re-serialised: number spelling, key order, duplicate keys and inner
whitespace come back byte for byte. Each message is stored with a trailing comma, so that any run of messages is one
slice of the stored bytes between two brackets.
"""

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from everbrook.protocol.errors import InvalidJson

SEPARATOR = b","
_WHITESPACE = b" \t\n\r"

_value = Decoder(Raw)
_array = Decoder(list[Raw])


def split_messages(body: bytes) -> list[bytes]:
    """Validate a body and flatten one level of array into messages, each with its separator (§9.1.2)."""
    try:
        body.decode()
        if body.lstrip(_WHITESPACE).startswith(b"["):
            return [b"%b," % message for message in _array.decode(body)]
        return [b"%b," % _value.decode(body)]
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body must be JSON in UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise InvalidJson("the body must be JSON nested less deeply") from None
    except DecodeError as error:
        raise InvalidJson(f"the body must be JSON: {error}") from None


def join_messages(stored: bytes) -> bytes:
    """Present a run of stored messages as one JSON array (§9.1.5)."""
    return b"[%b]" % stored[:-1]
