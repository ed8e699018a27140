"""The sync client is what the async one says, and each thing that has a sync counterpart gets it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import mirror

ROOT = Path(__file__).parents[3]
ASYNC, SYNC = "src/everbrook/client/_async", "src/everbrook/client/_sync"
SOURCE = '''"""Reads."""

from collections.abc import AsyncIterator


async def values(reader: AsyncIterator[int]) -> list[int]:
    return [value async for value in reader]  # all of them
'''

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a small project."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())

    def written(name: str, text: str) -> Path:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        return tmp_path

    return written


def words(text: str) -> str:
    """A text without regard to its layout."""
    return " ".join(text.split())


def test_the_sync_client_is_what_the_async_one_says() -> None:
    command = [sys.executable, "tools/mirror.py", "--check"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_module_is_written_with_its_comments_and_where_it_comes_from(write: Write) -> None:
    root = write(f"{ASYNC}/values.py", SOURCE)
    assert mirror.main(root) == 0
    assert (root / SYNC / "values.py").read_text() == (
        f"# Written by tools/mirror.py from {ASYNC}/values.py: change that file, not this one.\n"
        '"""Reads."""\n\nfrom collections.abc import Iterator\n\n\n'
        "def values(reader: Iterator[int]) -> list[int]:\n    return list(reader)  # all of them\n"
    )


def test_what_was_written_passes_the_check(write: Write) -> None:
    root = write(f"{ASYNC}/values.py", SOURCE)
    write("tests/client/async_/test_values.py", SOURCE)
    mirror.main(root)
    assert (root / "tests/client/sync/test_values.py").is_file()
    assert mirror.main(root, "--check") == 0


@pytest.mark.parametrize("side", [ASYNC, SYNC])
def test_a_change_to_one_side_alone_is_named(write: Write, side: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(f"{ASYNC}/values.py", SOURCE)
    mirror.main(root)
    write(f"{side}/values.py", (root / side / "values.py").read_text() + "\nMORE = 1\n")
    assert mirror.main(root, "--check") == 1
    assert f"{SYNC}/values.py differs from its async side" in capsys.readouterr().err


def test_checking_writes_nothing(write: Write) -> None:
    root = write(f"{ASYNC}/values.py", SOURCE)
    assert mirror.main(root, "--check") == 1
    assert not (root / SYNC).exists()


def test_a_file_whose_async_side_is_gone_is_named_and_removed(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(f"{ASYNC}/values.py", SOURCE)
    mirror.main(root)
    (root / ASYNC / "values.py").rename(root / ASYNC / "numbers.py")
    assert mirror.main(root, "--check") == 1
    assert f"{SYNC}/values.py has no async side" in capsys.readouterr().err
    assert mirror.main(root) == 0
    assert [path.name for path in (root / SYNC).iterdir()] == ["numbers.py"]


def test_a_file_that_somebody_else_wrote_is_never_removed(write: Write) -> None:
    root = write(f"{SYNC}/own.py", "X = 1\n")
    assert mirror.main(root) == 1
    assert (root / SYNC / "own.py").is_file()


def test_a_module_that_is_broken_is_named_and_the_others_are_written(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write(f"{ASYNC}/values.py", SOURCE)
    write(f"{ASYNC}/broken.py", "async def (:\n")
    assert mirror.main(root) == 1
    assert f"{ASYNC}/broken.py can't be written as sync code" in capsys.readouterr().err
    assert (root / SYNC / "values.py").is_file()


@pytest.mark.parametrize(
    "given, expected",
    [
        ("async with a as b: await b.aread()", "with a as b: b.read()"),
        ("async for x in aiter(y): z = await anext(x)", "for x in iter(y): z = next(x)"),
        ("class _AsyncX(AsyncY): __aenter__ = __aiter__", "class _X(Y): __enter__ = __iter__"),
        ("raise StopAsyncIteration", "raise StopIteration"),
        ("x: httpx2.AsyncClient", "x: httpx2.Client"),
        ("x: Callable[[A, B], Awaitable[C[D]]]", "x: Callable[[A, B], C[D]]"),
        ("x: Coroutine[Any, dict[A, B], C | None]", "x: C | None"),
        ("x: Awaitable[A | Awaitable[B]]", "x: A | B"),
        ("x: list[typing.Awaitable[A]]", "x: list[A]"),
        ("isinstance(x, Iterable | AsyncIterable)", "isinstance(x, Iterable )"),
        ("x = a.b | b", "x = a.b | b"),
        ("(await x(1)[2]).y", "x(1)[2].y"),
        ("f(await x)", "f(x)"),
        ("(await x or y).z", "(x or y).z"),
        ("x = {**await y, 'z': -await z}", "x = {**y, 'z': -z}"),
        ("from a._async.b import c", "from a._sync.b import c"),
        ("import tests.client.async_.b", "import tests.client.sync.b"),
        ("x = f'{await y.aread()!r} of {AsyncX}'", "x = f'{y.read()!r} of {X}'"),
        ("x = 'a._async.b.AsyncC'", "x = 'a._sync.b.C'"),
        ("asynchronous = awaited = Asyncio", "asynchronous = awaited = Asyncio"),
        ("pytestmark = [pytest.mark.anyio, pytest.mark.slow]", "pytestmark = [ pytest.mark.slow]"),
        ("pytestmark = pytest.mark.anyio\nx = 1", "x = 1"),
        ("@pytest.mark.anyio\nasync def f(): pass", "def f(): pass"),
    ],
)
def test_code_loses_what_waits(given: str, expected: str) -> None:
    assert words(mirror.mirrored(given + "\n")) == words(expected)


@pytest.mark.parametrize(
    "given, expected",
    [
        ("# An async iterator, or an async callable", "# An iterator, or a callable"),
        ("# Asynchronous readers", "# Readers"),
        ("# an `AsyncStream` and an AsyncOffer", "# a `Stream` and an Offer"),
        ("# await reader.all() in an async with", "# reader.all() in a with"),
        ("# a coroutine function, coroutines", "# a function, functions"),
        ("# asyncio alone, --async", "# asyncio alone, --async"),
    ],
)
def test_prose_speaks_of_its_own_side(given: str, expected: str) -> None:
    assert mirror.mirrored(given) == expected


@pytest.mark.parametrize(
    "given, expected",
    [
        ("x = 1\ny = await x  # async only\nz = 2", "x = 1\nz = 2"),
        ("if x:  # async only\n    y = 1\n\n    # still\n    z = 2\nw = 3", "w = 3"),
        ("y = f(  # async only\n    x,\n)\nz = 1", "z = 1"),
        ("y = f(\n    x,\n)  # async only\nz = 1", "z = 1"),
        ("y = f(\n    x,  # async only\n    z,\n)", "y = f(\n    z,\n)"),
        ("y = f(\n    g(  # async only\n        x,\n    ),\n    z,\n)", "y = f(\n    z,\n)"),
        ("# why\n@a\n@b(1)\nasync def f():  # async only\n    pass\nz = 1", "z = 1"),
        ("class A:\n    x: int\n\n    def f(self):  # async only\n        pass", "class A:\n    x: int"),
        ("# why  # async only\nz = 1", "z = 1"),
        ("y = 1  # noqa: X  # async only\nz = 1", "z = 1"),
        ("if a:\n    # sync only: x = AsyncX()\n    y = 1  # async only", "if a:\n    x = X()"),
    ],
)
def test_what_only_one_side_has_is_marked(given: str, expected: str) -> None:
    assert mirror.mirrored(given + "\n").strip() == expected
