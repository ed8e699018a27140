"""Values as the suite writes them: pages as chunks, options under its own names, headers that change."""

import base64
import json
from collections.abc import Callable
from itertools import count
from time import time
from typing import Any

from everbrook import Page

Command = dict[str, Any]
Result = dict[str, Any]


def chunks_of(pages: list[Page]) -> list[Result]:
    return [_chunk(page) for page in pages if page.values]


def _chunk(page: Page) -> Result:
    """A page as the suite compares it: JSON without spaces, the rest as text where it is text."""
    if page.content_type.startswith("application/json"):
        text = json.dumps(page.values, separators=(",", ":"), ensure_ascii=False)
        return {"data": text, "offset": page.next_offset}
    try:
        return {"data": page.data.decode(), "offset": page.next_offset}
    except UnicodeDecodeError:
        return {"data": base64.b64encode(page.data).decode(), "binary": True, "offset": page.next_offset}


def changing(command: Command) -> Callable[[], str]:
    if command["valueType"] == "token":
        return lambda: str(command["initialValue"])
    if command["valueType"] == "timestamp":
        return lambda: str(int(time() * 1000))
    numbers = count(1)
    return lambda: str(next(numbers))


def retry_options(target: Command) -> dict[str, float]:
    options: dict[str, float] = {}
    if "maxRetries" in target:
        options["max_attempts"] = target["maxRetries"] + 1  # the suite does not count the first attempt
    for theirs, ours in {"initialDelayMs": "first_delay_secs", "maxDelayMs": "max_delay_secs"}.items():
        if theirs in target:
            options[ours] = target[theirs] / 1000
    return options | ({"multiplier": target["multiplier"]} if "multiplier" in target else {})
