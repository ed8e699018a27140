"""How deeply a JSON value may be nested: as deeply on every version of Python.

A decoder refuses what is nested deeper than the interpreter's own limit of recursion, and that limit changes from
version to version: below 1,000 levels in CPython 3.11, thousands in 3.13. What one server takes, a client on any
version must be able to read.
"""

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Raw

MAX_LEVELS = 512
_SHORTEST_BYTES = 2 * (MAX_LEVELS + 1)
"""Each level has a bracket that opens it and one that closes it."""

_OPENING, _CLOSING = b"\x01", b"\xff"
_STEPS = bytes.maketrans(b"[{]}", 2 * _OPENING + 2 * _CLOSING)
"""A bracket as a signed byte: one level deeper, or back."""
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_BLOCK = 128


def any_too_deep(messages: Sequence[bytes | Raw]) -> bool:
    """Tell whether any of some valid JSON values is nested too deeply. Most are too short to be, and cost nothing."""
    return max(map(len, messages), default=0) >= _SHORTEST_BYTES and any(map(too_deep, messages))


def too_deep(value: bytes | Raw) -> bool:
    """Tell whether a valid JSON value, or one of several with commas between them, is nested too deeply."""
    if len(value) < _SHORTEST_BYTES:
        return False
    text = bytes(value)
    return _opens_more_than(text, MAX_LEVELS) and _goes_deeper_than(_steps(text), MAX_LEVELS)


def _opens_more_than(text: bytes, levels: int) -> bool:
    """Look for so many opening brackets, in strings too. Finding is quick where there are few; counting never is."""
    found = 0
    for bracket in (b"[", b"{"):
        place = text.find(bracket)
        while place >= 0:
            found += 1
            if found > levels:
                return True
            place = text.find(bracket, place + 1)
    return False


def _steps(text: bytes) -> bytes:
    """Leave only the brackets that are not within strings, as steps."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    steps = text.translate(_STEPS, _OTHERS).replace(b'""', b"")
    # From here on every other piece between quotation marks is within a string, and most texts have one piece.
    return b"".join(steps.split(b'"')[::2])


def _goes_deeper_than(steps: bytes, levels: int) -> bool:
    """Add the steps up, one by one only in blocks that could go too deep."""
    level = 0
    for start in range(0, len(steps), _BLOCK):
        block = steps[start : start + _BLOCK]
        deeper = block.count(_OPENING)
        if level + deeper > levels and level + max(accumulate(memoryview(block).cast("b"))) > levels:
            return True
        level += 2 * deeper - len(block)
    return False
