"""Memoization of pure functions whose argument a client sent.

Clients choose the keys, so results for long keys are not cached: a cache of a thousand entries must not take megabytes.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

MAX_KEY_BYTES = 512

Result = TypeVar("Result")


def remember(maxsize: int) -> Callable[[Callable[[bytes], Result]], Callable[[bytes], Result]]:
    """Cache the `maxsize` most recently used results of a function of one text."""

    def decorate(function: Callable[[bytes], Result]) -> Callable[[bytes], Result]:
        remembered = lru_cache(maxsize)(function)

        @wraps(function)
        def call(text: bytes) -> Result:
            return remembered(text) if len(text) <= MAX_KEY_BYTES else function(text)

        return call

    return decorate
