"""Writes the sync client, and its tests, from the async ones; `--check` only reports where they differ.

It works on tokens, so that comments and layout survive: `async` and `await` go, and every name and word gets its sync
counterpart. Ruff does the rest (imports, layout). Two markers are for what only one side has:

    value = await value  # async only       the statement goes, with its block, decorators and the comment right above;
                                            inside brackets, the line goes
    # sync only: value = value.get()        the text behind the colon becomes code
"""

import io
import keyword
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = {"src/everbrook/client/_async": "src/everbrook/client/_sync", "tests/client/async_": "tests/client/sync"}
"""Each folder that is read, and the one that is written."""

BY_HAND = frozenset({"src/everbrook/client/_sync/concurrency.py"})
"""Modules that are written by hand, because their two sides differ too much."""

NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "_async": "_sync",
    "aclose": "close",
    "aclosing": "closing",
    "aiter": "iter",
    "aiter_bytes": "iter_bytes",
    "aiter_lines": "iter_lines",
    "aiter_raw": "iter_raw",
    "aiter_text": "iter_text",
    "anext": "next",
    "aread": "read",
    "asend": "send",
    "async_": "sync",
    "asynccontextmanager": "contextmanager",
    "athrow": "throw",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncByteStream": "SyncByteStream",
    "StopAsyncIteration": "StopIteration",
    "enter_async_context": "enter_context",
    "handle_async_request": "handle_request",
    "push_async_callback": "callback",
    "push_async_exit": "push",
}
"""Names with a sync counterpart; besides, every `AsyncX` becomes `X`."""

WRAPPERS = {"Awaitable": 0, "Coroutine": 2}
"""Types that stand for what is awaited, with the number of arguments before it."""

HEADER = "# Written by tools/mirror.py from {}: change that file, not this one.\n"
ASYNC_ONLY = "# async only"
SYNC_ONLY = "# sync only: "
MARK = "pytest.mark.anyio"
RUFF = str(Path(sys.executable).parent / "ruff")
REWRITES = "C416,SIM117,UP028"
"""What only sync code can say shorter: `list(x)`, one `with` for two, `yield from`. Ruff does not do these unasked."""

_BLANK = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_ARTICLE = re.compile(r"\b([Aa])n (`?)(?:Async(?=[A-Z])|async(?:hronous)? )(?=(\w))")
_ASYNC = re.compile(r"\b([Aa])sync(?:hronous)? (\w)")
_AWAIT = re.compile(r"\bawait (?=[\w(])")
_COROUTINE = re.compile(r"\bcoroutine(?: function)?(?=s?\b)")


class Token(NamedTuple):
    kind: int
    text: str
    start: int
    end: int


class Edit(NamedTuple):
    start: int
    end: int
    text: str = ""


class Line(NamedTuple):
    """A logical line: a simple statement, or the head of a block."""

    tokens: list[Token]
    level: int

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens if token.kind not in _BLANK).rstrip("\n")


def mirrored(text: str) -> str:
    """The sync counterpart of a module, before ruff has seen it."""
    for cause, edits in STEPS:
        if re.search(cause, text):
            text = _edited(text, edits(text))
    return text


def _without_async_only(text: str) -> Iterator[Edit]:
    lines = list(_lines(text))
    for number, line in enumerate(lines):
        for place, token in enumerate(line.tokens):
            if token.kind != tokenize.COMMENT or not token.text.endswith(ASYNC_ONLY):
                continue
            before = [other for other in line.tokens[:place] if other.kind not in _BLANK]
            if not before:
                yield Edit(*_physical(text, token.start, token.end))
            elif line.tokens[place + 1].kind == tokenize.NEWLINE or _opens(text, before[0], token):
                yield Edit(*_statement(text, lines, number))
            else:
                yield Edit(*_inside(text, line.tokens, token))


def _with_sync_only(text: str) -> Iterator[Edit]:
    for token in _tokens(text):
        if token.kind == tokenize.COMMENT and token.text.startswith(SYNC_ONLY):
            yield Edit(token.start, token.end, token.text.removeprefix(SYNC_ONLY))


def _without_marks(text: str) -> Iterator[Edit]:
    """A sync test needs no event loop."""
    lines = list(_lines(text))
    for number, line in enumerate(lines):
        if line.text in {f"@{MARK}", f"pytestmark={MARK}"}:
            yield Edit(*_statement(text, lines, number))
            continue
        for place in range(len(line.tokens) - 5):
            if "".join(token.text for token in line.tokens[place : place + 5]) == MARK:
                after = line.tokens[place + 5]
                yield Edit(line.tokens[place].start, after.end if after.text == "," else after.start)


def _unwrapped(text: str) -> Iterator[Edit]:
    """`Awaitable[X]` as `X`."""
    tokens = _tokens(text)
    for place, token in enumerate(tokens[:-1]):
        if token.text in WRAPPERS and tokens[place + 1].text == "[":
            closing = _closing(tokens, place + 1)
            inner = _depths(tokens[place + 2 : closing])
            opening = [tokens[place + 1], *(other for other, depth in inner if other.text == "," and depth == 0)]
            qualified = tokens[place - 1].text == "."
            yield Edit(
                tokens[place - 2].start if qualified else token.start, opening[: WRAPPERS[token.text] + 1][-1].end
            )
            yield Edit(tokens[closing].start, tokens[closing].end)


def _without_parentheses(text: str) -> Iterator[Edit]:
    """`(await x.y()).z` needs its parentheses only while it waits."""
    tokens = _tokens(text)
    for place, token in enumerate(tokens[:-1]):
        if token.text != "(" or tokens[place + 1].text != "await" or _is_value(tokens[place - 1]):
            continue
        closing = _closing(tokens, place)
        shallow = [other for other, depth in _depths(tokens[place + 2 : closing]) if depth == 0]
        if all(other.text in ".()[]" or _is_value(other) for other in shallow):
            yield Edit(token.start, token.end)
            yield Edit(tokens[closing].start, tokens[closing].end)


def _in_sync_words(text: str) -> Iterator[Edit]:
    tokens = _tokens(text)
    for place, token in enumerate(tokens):
        if token.kind in {tokenize.STRING, tokenize.COMMENT}:
            yield Edit(token.start, token.end, _prose(token.text))
        elif token.text in {"async", "await"}:
            yield Edit(token.start, tokens[place + 1].start)
        elif token.kind == tokenize.NAME:
            yield Edit(token.start, token.end, _name(token.text))


def _without_repeats(text: str) -> Iterator[Edit]:
    """`Iterable | AsyncIterable` are the same now. In types ruff sees it, in `isinstance` it does not."""
    tokens = _tokens(text)
    for before, first, bar, second, after in zip(*(tokens[place:] for place in range(5)), strict=False):
        same = first.kind == tokenize.NAME and bar.text == "|" and first.text == second.text
        if same and before.text != "." and after.text not in {".", "[", "("}:
            yield Edit(bar.start, second.end)


def _name(name: str) -> str:
    return NAMES.get(name) or re.sub(r"^(_?)Async(?=[A-Z])", r"\1", name)


def _prose(text: str) -> str:
    text = _AWAIT.sub("", text)
    text = _ARTICLE.sub(lambda found: f"{found[1]}{'n' if found[3] in 'aeioAEIO' else ''} {found[2]}", text)
    text = _ASYNC.sub(lambda found: found[2].upper() if found[1] == "A" else found[2], text)
    text = _COROUTINE.sub("function", text).replace("asyncio task", "thread")
    return _WORD.sub(lambda found: _name(found[0]), text)


def _tokens(text: str) -> list[Token]:
    """The tokens with their places in the text; an f-string is one token, as it was before Python 3.12."""
    lines = [0, *(found.end() for found in re.finditer(r"\n|\Z", text)), len(text)]
    found: list[Token] = []
    opened: list[int] = []
    for kind, string, (row, column), (end_row, end_column), _ in tokenize.generate_tokens(io.StringIO(text).readline):
        token = Token(kind, string, lines[row - 1] + column, lines[end_row - 1] + end_column)
        if tokenize.tok_name[kind].endswith("STRING_START"):
            opened.append(token.start)
        elif tokenize.tok_name[kind].endswith("STRING_END"):
            start = opened.pop()
            token = Token(tokenize.STRING, text[start : token.end], start, token.end)
        if not opened:
            found.append(token)
    return found


def _lines(text: str) -> Iterator[Line]:
    level = 0
    line: list[Token] = []
    for token in _tokens(text):
        level += (token.kind == tokenize.INDENT) - (token.kind == tokenize.DEDENT)
        line.append(token)
        if token.kind in {tokenize.NEWLINE, tokenize.ENDMARKER}:
            yield Line(line, level)
            line = []


def _statement(text: str, lines: list[Line], number: int) -> tuple[int, int]:
    """From the first comment or decorator right above a statement to the end of its block."""
    last = number
    while last + 1 < len(lines) and lines[last + 1].level > lines[number].level and lines[last + 1].text:
        last += 1
    if lines[number].text.startswith(("def", "class", "async")):
        while number and lines[number - 1].text.startswith("@"):
            number -= 1
    first = next(token for token in lines[number].tokens if token.kind not in _BLANK)
    start, end = _physical(text, first.start, lines[last].tokens[-1].start)
    while (above := text.rfind("\n", 0, start - 1) + 1) < start and text[above:start].lstrip().startswith("#"):
        start = above
    return start, end


def _inside(text: str, tokens: list[Token], marker: Token) -> tuple[int, int]:
    """The physical line of a marker inside brackets, and those after it that close what it opened."""
    start, end = _physical(text, marker.start, marker.end)
    following = _depths(token for token in tokens if token.start >= start)
    after, depth = next((token, depth) for token, depth in following if token.start >= end and depth <= 0)
    closes = depth == 0 and after.text in {")", "]", "}"}
    return start, _physical(text, after.start, after.end)[1] if closes else end


def _physical(text: str, start: int, end: int) -> tuple[int, int]:
    """The whole lines around a range."""
    return text.rfind("\n", 0, start) + 1, (text.find("\n", end) + 1) or len(text)


def _opens(text: str, first: Token, marker: Token) -> bool:
    return "\n" not in text[first.start : marker.start]


def _closing(tokens: list[Token], place: int) -> int:
    """Where the bracket is closed that opens at a place."""
    return next(place + after for after, (_, depth) in enumerate(_depths(tokens[place:])) if after and depth == 0)


def _depths(tokens: Iterable[Token]) -> Iterator[tuple[Token, int]]:
    """Each token with the number of brackets around it; a bracket is outside of what it encloses."""
    depth = 0
    for token in tokens:
        depth -= token.kind == tokenize.OP and token.text in ")]}"
        yield token, depth
        depth += token.kind == tokenize.OP and token.text in "([{"


def _is_value(token: Token) -> bool:
    """Whether a bracket right behind it would be a call or an index."""
    named = token.kind == tokenize.NAME and not keyword.iskeyword(token.text)
    return named or token.kind == tokenize.STRING or token.text in {")", "]"}


def _edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with its edits; what lies within another edit is gone with it."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.start >= done:
            parts += text[done : edit.start], edit.text
            done = edit.end
    return "".join((*parts, text[done:]))


STEPS: tuple[tuple[str, Callable[[str], Iterable[Edit]]], ...] = (
    (SYNC_ONLY, _with_sync_only),
    (ASYNC_ONLY, _without_async_only),
    (MARK, _without_marks),
    ("|".join(WRAPPERS), _unwrapped),
    (r"\(\s*await", _without_parentheses),
    ("", _in_sync_words),
    (r"\b(\w+)\s*\|\s*\1\b", _without_repeats),
)
"""What is done in turn, each only where the text has a cause for it: to read the tokens is what takes time."""


class Mirror:
    """The sync side of a project as it should be, beside what is there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.problems: list[str] = []
        self.texts: dict[str, str] = {}
        for folder, counterpart in FOLDERS.items():
            for source in sorted((root / folder).rglob("*.py")):
                self._render(source, f"{counterpart}/{source.relative_to(root / folder).as_posix()}")
        self.texts |= _polished(root, {name: text for name, text in self.texts.items() if text})

    def _render(self, source: Path, name: str) -> None:
        if name in BY_HAND:
            return
        origin = source.relative_to(self.root).as_posix()
        self.texts[name] = ""
        try:
            text = HEADER.format(origin) + mirrored(source.read_text("utf-8"))
            compile(text, name, "exec", dont_inherit=True)
        except (SyntaxError, tokenize.TokenError) as error:
            self.problems.append(f"{origin} can't be written as sync code: {error}")
        else:
            self.texts[name] = text

    def differing(self) -> list[str]:
        """The files that are missing, or differ from their async side."""
        return [name for name, text in self.texts.items() if text and _read(self.root / name) != text]

    def stale(self) -> list[str]:
        """The files that have no async side."""
        present = sorted(path for folder in FOLDERS.values() for path in (self.root / folder).rglob("*.py"))
        names = [path.relative_to(self.root).as_posix() for path in present]
        return [name for name in names if name not in BY_HAND and name not in self.texts]

    def write(self) -> None:
        """Write the files. Only files that this tool has written are removed."""
        for name in self.differing():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(self.texts[name], "utf-8")
        for name in self.stale():
            if _read(self.root / name).startswith(HEADER.split("{}", maxsplit=1)[0]):
                (self.root / name).unlink()


def _polished(root: Path, texts: dict[str, str]) -> dict[str, str]:
    """The texts as ruff would have them, in a copy of the tree: ruff looks at other modules to sort imports."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        _link(root, copy, {copy / name for name in texts})
        for name, text in texts.items():
            (copy / name).write_text(text, "utf-8")
        for command in (
            f"check --select {REWRITES} --unsafe-fixes --fix-only",
            "check --unfixable D --fix-only",
            "format",
        ):
            subprocess.run([RUFF, *command.split(), "--quiet", "--no-cache", *texts], cwd=copy, check=True)  # noqa: S603
        return {name: (copy / name).read_text("utf-8") for name in texts}


def _link(original: Path, copy: Path, written: set[Path]) -> None:
    """Fill a folder with links to what another one has, but for the files to be written and the folders on the way."""
    copy.mkdir(exist_ok=True)
    ways = {path for path in written if path.is_relative_to(copy)}
    folders = {copy / path.relative_to(copy).parts[0] for path in ways} - ways
    for folder in folders:
        _link(original / folder.name, folder, ways)
    for path in original.iterdir() if original.is_dir() else ():
        if copy / path.name not in ways | folders:
            (copy / path.name).symlink_to(path.resolve())


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def main(root: Path, *arguments: str) -> int:
    mirror = Mirror(root)
    if "--check" not in arguments:
        mirror.write()
    problems = [
        *mirror.problems,
        *(f"{name} differs from its async side: run `python tools/mirror.py`" for name in mirror.differing()),
        *(f"{name} has no async side: remove it, or name it in BY_HAND" for name in mirror.stale()),
    ]
    for problem in problems:
        print(f"mirror: {problem}", file=sys.stderr)
    if not problems:
        print(f"mirror: {len(mirror.texts)} files agree with their async sides")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent.parent, *sys.argv[1:]))
