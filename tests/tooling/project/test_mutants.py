"""Mutation testing of changed lines finds what no test checks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants import ROOT, changed_lines, find_tests, mutants_of

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
SMALL = "src/everbrook/protocol/content_type.py"
MODULE = Path("src/everbrook/some.py")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a == b != c", {"a != b != c", "a == b == c", "b != c", "a == b"}),
        ("a <= b", {"a < b", "a > b"}),
        ("a and b", {"a or b", "a", "b"}),
        ("not a", {"a"}),
        ("a + 1", {"a - 1", "a + 2"}),
        ("{'a': x, 'b': y}", {"{'a': x}", "{'b': y}"}),
        ("a[0]", {"a[1]"}),
        ("a[b + 1:-1]", {"a[b - 1:-1]", "a[b + 2:-1]", "a[b + 1:-2]"}),
        ("a: dict[str, int | None] = b", set()),
        ("A = Callable[[int, str], None]", set()),
        ("f()", {"pass"}),
        ("def f(a: bool) -> None:\n    return a", {"def f(a: bool) -> None:\n    pass"}),
        ("def f(a: Literal[1, 2]) -> tuple[int, str]: ...", set()),
    ],
)
def test_a_line_is_broken_in_every_small_way(text: str, expected: set[str]) -> None:
    found = {mutant.text(text) for mutant in mutants_of(MODULE, text, set(range(1, 9)))}
    assert found == expected


def test_lines_that_did_not_change_stay_as_they_are() -> None:
    assert {mutant.line for mutant in mutants_of(MODULE, "a < b\nb < c\nc < d", {2})} == {2}


def test_a_module_is_tested_by_who_uses_it() -> None:
    assert "tests/unit/protocol/test_producer.py" in find_tests(Path("src/everbrook/protocol/producer.py"))


def test_what_changed_is_what_git_says() -> None:
    module = Path("src/everbrook/protocol/producer.py")
    changed = changed_lines(EMPTY_TREE)
    assert all(line in changed[module] for line in range(1, len((ROOT / module).read_text().splitlines()) + 1))
    assert not [path for path in changed if "_sync" in path.parts]


SEEING = (
    "from pathlib import Path; "
    f"assert Path(content_type.__file__).read_text() == Path({str(ROOT / SMALL)!r}).read_text()"
)


@pytest.mark.parametrize("test, exit_code, words", [("pass", 1, "survived"), (SEEING, 0, "1 of 1 killed")])
def test_a_survivor_is_listed_and_fails_the_run(tmp_path: Path, test: str, exit_code: int, words: str) -> None:
    file = tmp_path / "test_small.py"
    file.write_text(f"from everbrook.protocol import content_type\n\ndef test_it():\n    {test}\n")
    command = [sys.executable, "tools/mutants.py", "--files", SMALL, "--at-most", "1", "--tests", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, words in done.stdout) == (exit_code, True), done.stdout + done.stderr
