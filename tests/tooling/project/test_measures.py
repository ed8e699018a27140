"""The measures count what they say."""

import subprocess
from pathlib import Path

import pytest

from tools import measures

BASE = "class Base:\n    pass\n"
CHILD = "from everbrook.engine.base import Base\n\n\nclass Child(Base):\n    pass\n"


def value(name: str, files: dict[str, str]) -> float:
    return next(each.value for each in measures.measure(files) if each.name == name)


def engine(**texts: str) -> dict[str, str]:
    """Give modules of the engine."""
    return {f"src/everbrook/engine/{name}.py": text for name, text in texts.items()}


def test_lines_and_files_are_those_of_a_package_and_the_folders_in_it() -> None:
    texts = {"src/everbrook/server/tls.py": "a = 1\nb = 2\n", "src/everbrook/server/auth/keys.py": "a = 1\n"}
    assert (value("lines, server", texts), value("files, server", texts)) == (3, 2)
    assert (value("longest file", texts), value("median file", texts)) == (2, 1.5)


SPLIT = "classes split over files by inheritance"


def test_a_class_that_one_file_beside_it_goes_on_with_is_split() -> None:
    assert value(SPLIT, engine(base=BASE, child=CHILD)) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(CHILD.replace("Child", "Other"), id="a second subclass"),
        pytest.param("from everbrook.engine.base import Base\n\nB = Base()\n", id="another user"),
    ],
)
def test_a_class_that_others_share_is_not_split(other: str) -> None:
    assert value(SPLIT, engine(base=BASE, child=CHILD, other=other)) == 0


def test_a_class_is_not_split_within_a_file_or_over_packages() -> None:
    assert value(SPLIT, engine(base=BASE + "class Child(Base):\n    pass\n")) == 0
    assert value(SPLIT, {**engine(base=BASE), "src/everbrook/server/child.py": CHILD}) == 0


@pytest.mark.parametrize(
    "name, count", [("gathering", 1), ("row_packing", 1), ("listing", 0), ("offset", 0), ("ring_buffer", 0)]
)
def test_a_gerund_is_counted_unless_it_is_a_noun_of_the_field(name: str, count: int) -> None:
    assert value("file names that are gerunds", engine(**{name: ""})) == count


def test_a_file_name_that_occurs_twice_in_a_package_is_counted_once() -> None:
    places = ("spark", "spark/folds", "spark/lake", "cli", "client")
    texts = {f"src/everbrook/{place}/options.py": "" for place in places}
    assert value("file names that occur twice in a package", texts) == 1


def test_suppressions_and_other_comments_are_told_apart() -> None:
    text = '"""Why."""\n\na = f()  # noqa: S101 - a reason\nb: int = a  # type: ignore[x]\n# Before c, because of d.\n'
    assert value("suppressions", engine(clock=text)) == 2
    assert value("comments per 100 lines of code", engine(clock=text)) == 50


@pytest.mark.parametrize("imported", ["from everbrook.engine.clock import Clock", "from everbrook.engine import clock"])
def test_a_module_that_one_other_imports_is_counted(imported: str) -> None:
    measured = "modules imported by exactly one other"
    assert value(measured, engine(clock="", feed=imported)) == 1
    assert value(measured, engine(clock="", feed=imported, stall=imported)) == 0
    assert value(measured, engine(clock="", __init__=imported)) == 0


@pytest.mark.parametrize(
    "text, count",
    [
        ("engine._streams", 1),
        ("from everbrook.engine.clock import _now", 1),
        ("self._streams", 0),
        ("def f(self):\n    self._own = 1\nother._own", 0),
        ("head._replace(tail=1)", 0),
        ("engine.__class__", 0),
    ],
)
def test_a_private_name_of_others_is_counted_in_tests(text: str, count: int) -> None:
    assert value("private accesses in tests", {"tests/test_engine.py": text}) == count


def test_a_revision_is_measured_beside_the_working_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "src/everbrook/cli/main.py"
    file.parent.mkdir(parents=True)
    file.write_text("a = 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_main.py").write_text("")
    author = ("-c", "user.name=A", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "--no-gpg-sign", "-m", "First")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    file.write_text("a = 1\nb = 2\n")
    measures.main(tmp_path, "--base", "HEAD", "--names")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["HEAD", "now"]
    assert ["lines,", "cli", "1", "2"] in [line.split() for line in lines]
    assert lines[-2:] == ["longest file:", "  src/everbrook/cli/main.py"]
