"""How much work a call is, in lines of ours that run: the same on every machine, however busy it is."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import everbrook

OURS = str(Path(everbrook.__file__).parent)


def count_lines(call: Callable[[], object]) -> int:
    """Call something, and count the lines of the package that ran. What a library does in one line counts as one."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - as `sys.settrace` has it
        nonlocal lines
        lines += event == "line"
        return trace

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401
        return trace if frame.f_code.co_filename.startswith(OURS) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines
