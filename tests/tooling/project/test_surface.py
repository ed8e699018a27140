"""What users rely on by name changes only together with the list of it."""

import difflib

from tests.tooling.project import surface


def test_public_names_are_those_of_the_list() -> None:
    before, now = surface.LIST.read_text(), surface.surface()
    changes = list(difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=0))
    assert not changes, (
        "what users see has changed; write it into CHANGELOG.md, and run python -m tests.tooling.project.surface"
    )
