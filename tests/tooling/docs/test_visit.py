"""A page that does not do what it says fails, whichever way."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from everbrook.settings import SettingsError
from tests.kit.server_thread import eventually
from tests.tooling.docs.page import parse_page
from tests.tooling.docs.shell import Unfinished
from tests.tooling.docs.visit import Visit

Follow = Callable[[str], None]


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """Go through a page without a server."""
    with ExitStack() as visits:

        def follow(page: str) -> None:
            blocks = parse_page(page)
            visit = Visit("page.md", blocks, tmp_path, served=False)
            visits.callback(visit.end)
            visit.reach(len(blocks) - 1)

        yield follow


@pytest.mark.parametrize(
    "page",
    [
        "```python\nx = 1\n```\n```python\nx + 1   # → 2\n```\n",
        "```python\nimport asyncio\nawait asyncio.sleep(0, 'slept')   # → 'slept'\n```\n",
        "```sh\nx=1\n```\n```sh\necho $x   # → 1\n```\n",
        "```sh\necho '[1]'\n```\n<!-- output -->\n```json\n[2]\n```\n",
        "```python\nprint('a\\nb')\n```\n<!-- output -->\n```text\na\n…\n```\n",
        "```console\n$ echo one; (exit 3)\none\n$ echo $?\n3\n$ echo two >&2\ntwo\n```\n",
        "```python\n# a.py\nprint('saved')\n```\n```sh\npython a.py   # → saved\n```\n",
        "<!-- until interrupted -->\n```sh\necho begun   # → begun\nsleep() { command sleep 60; }; sleep\n```\n",
        "<!-- until interrupted -->\n```python\nimport time\nprint('begun')   # → begun\ntime.sleep(60)\n```\n",
        "<!-- not run: it fails -->\n```sh\nfalse\n```\n",
        "```sh\nmake test\n```\n",
        "```toml\n[server]\nport = 1\n```\n",
    ],
)
def test_a_page_that_does_what_it_says_passes(follow: Follow, page: str) -> None:
    follow(page)


@pytest.mark.parametrize(
    "page, message",
    [
        ("```rust\nx\n```\n", "don't know how to run a block of language 'rust'"),
        ("    ls\n", "don't know how to run a block of language ''"),
        ("```python\n1 + 1   # → 3\n```\n", "not printed: 3"),
        ("```sh\nfalse\ntrue\n```\n", "failed: false"),
        ("```sh\necho 1   # → 2\n```\n", "not printed: 2"),
        ("```sh\ncurl http://127.0.0.1:8000\n```\n", "failed: curl"),
        ("```sh\nmake nonsense\n```\n", "failed: make nonsense"),
        ("```sh\necho a\n```\n<!-- output -->\n```text\nb\n```\n", "what was printed is another"),
        ("```sh\necho '[1]'\n```\n<!-- output -->\n```json\n[null]\n```\n", "other keys or types"),
        ("```console\n$ echo a\nb\n```\n", "printed:\na"),
        ("<!-- until interrupted -->\n```sh\nfalse\n```\n", "failed: false"),
    ],
)
def test_a_page_that_does_something_else_fails(follow: Follow, page: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        follow(page)


def test_a_block_whose_server_refuses_to_start_fails_at_once(follow: Follow) -> None:
    with pytest.raises(Unfinished, match=r"ended by itself.*nonsense"):
        follow("```sh\neverbrook serve --storage nonsense &\ntail -f /dev/null\n```\n")


def test_a_block_may_end_a_server(follow: Follow) -> None:
    follow("```sh\neverbrook serve &\nsleep 0\n```\n```sh\nkill %1\nwait %1\necho ended   # → ended\n```\n")


def test_an_error_in_python_names_the_line_of_the_page(follow: Follow) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        follow("text\n\n```python\nx = 0\n1 / x\n```\n")
    assert (raised.traceback[-1].path, raised.traceback[-1].lineno + 1) == ("page.md", 5)


def test_settings_with_an_unknown_key_fail(follow: Follow) -> None:
    with pytest.raises(SettingsError, match="prot"):
        follow("```toml\n[server]\nprot = 1\n```\n")


def test_what_a_page_starts_ends_with_it(tmp_path: Path) -> None:
    visit = Visit("page.md", parse_page("```sh\ntail -f /dev/null & everbrook serve &\n```\n"), tmp_path)
    visit.reach(0)
    started = visit.processes()
    visit.end()
    assert len(started) == 2
    assert eventually(lambda: not any(Path(f"/proc/{process}").exists() for process in started))
