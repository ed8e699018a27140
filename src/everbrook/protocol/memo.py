"""Remembering what pure functions made of what clients sent, within bounds.

Clients choose these keys, so a long one is not remembered: a cache of a thousand entries must not hold megabytes.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

MAX_KEY_BYTES = 512

Result = TypeVar("Result")


def remember(maxsize: int) -> Callable[[Callable[[bytes], Result]], Callable[[bytes], Result]]:
    """Remember the last `maxsize` results of a function of one short text."""

    def decorate(function: Callable[[bytes], Result]) -> Callable[[bytes], Result]:
        remembered = lru_cache(maxsize)(function)

        @wraps(function)
        def call(text: bytes) -> Result:
            return remembered(text) if len(text) <= MAX_KEY_BYTES else function(text)

        return call

    return decorate
