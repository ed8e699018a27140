"""What a page shows of the output, held against what was printed.

`…` stands for anything within a line, and alone on a line for any lines. Pure: texts in, a complaint or nothing out.
"""

import re
from typing import Any

import msgspec

ANYTHING = "…"

_ARROW = re.compile(r"#\s*(?:→|->)\s*(.+?)\s*$", re.MULTILINE)


def promised(code: str) -> list[str]:
    """Give what the comments of a block say that it prints: `# → text`."""
    return _ARROW.findall(code)


def first_missing(texts: list[str], output: str) -> str | None:
    """Give the first of some texts that is not in the output, behind the ones before it."""
    at = 0
    for text in texts:
        found = re.compile(_pattern(text)).search(output, at)
        if found is None:
            return text
        at = found.end()
    return None


def _pattern(line: str) -> str:
    return "[^\n]*".join(re.escape(part) for part in line.split(ANYTHING))


def matches(shown: str, output: str) -> bool:
    """Whether an output is the one shown, however wide its columns are."""
    pattern = "".join(_line_pattern(line) for line in _narrow(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _narrow(output))) is not None


def _line_pattern(line: str) -> str:
    return r"(?:[^\n]*\n)*" if line == ANYTHING else _pattern(line) + "\n"


def _narrow(text: str) -> list[str]:
    return [re.sub(" {2,}", "  ", line.rstrip()) for line in text.strip("\n").split("\n")]


def shape(text: str) -> Any:  # noqa: ANN401 - as JSON is
    """Give the keys and types of a JSON text: what remains of an answer when its values are others."""
    return _shape(msgspec.json.decode(text))


def _shape(value: Any) -> Any:  # noqa: ANN401 - as JSON is
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return type(value).__name__
