"""Every case of the official client suite has a test of ours, which runs without that suite: `official_cases.toml`."""

import re
import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent
LISTED: dict[str, dict[str, str]] = tomllib.loads((FOLDER / "official_cases.toml").read_text("utf-8"))
CASES = {case: test for group in LISTED.values() for case, test in group.items()}
OFFICIAL_CASES = 269


def defined(path: Path) -> set[str]:
    """The tests in a file."""
    return set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE))


def files(test: str) -> list[Path]:
    """The files in which a test must be: of both sides of the client, or of the protocol."""
    name = test.partition("::")[0]
    if "/" in name:
        return [FOLDER.parents[1] / name]
    return [FOLDER / side / "cases" / name for side in ("async_", "sync")]


def test_every_case_is_listed_once() -> None:
    assert len(CASES) == sum(map(len, LISTED.values())) == OFFICIAL_CASES


def test_every_test_that_is_listed_is_there() -> None:
    missing = [
        test for test in set(CASES.values()) for file in files(test) if test.partition("::")[2] not in defined(file)
    ]
    assert not missing
