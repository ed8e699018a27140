"""Digits: JSON that is read, and may be written again, with every digit that its numbers have.

A number is a float if that is all there is to it, and a Decimal otherwise: one that is longer, written in another way,
or beyond what a float can be. What no reader takes, and what is nested too deeply for one, is `UNREADABLE`.
"""

from decimal import Decimal
from typing import Any

import msgspec

UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)


def _number(text: str) -> float | Decimal:
    number = float(text)
    if repr(number) == text:
        return number
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"the number {text:.40} is too large") from None


_decoder = msgspec.json.Decoder(float_hook=_number)
_encoder = msgspec.json.Encoder(decimal_format="number")


def decode(data: bytes | str) -> Any:
    """Read JSON."""
    return _decoder.decode(data)


def encode(value: Any) -> bytes:
    """Write JSON."""
    return _encoder.encode(value)
