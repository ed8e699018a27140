"""How much work a call is, in lines and calls of ours that run: the same on every machine, however busy it is."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import Struct

import everbrook

OURS = str(Path(everbrook.__file__).parent)


class Work(Struct, frozen=True):
    """The lines and the calls of the package that ran. What a library does in one line counts as one."""

    lines: int
    calls: int


def count_work(call: Callable[[], object]) -> Work:
    """Call something, and count what it ran."""
    lines = calls = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - as `sys.settrace` has it
        nonlocal lines
        lines += event == "line"
        return trace

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401
        nonlocal calls
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        calls += 1
        return trace

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return Work(lines, calls)


def count_lines(call: Callable[[], object]) -> int:
    """Call something, and count the lines that it ran."""
    return count_work(call).lines
