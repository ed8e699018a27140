"""The soak of a large store looks at a process that goes on meanwhile."""

import os

from soak.scale import usage


def test_a_file_that_is_closed_while_files_are_counted_is_no_failure() -> None:
    # Of a process that looks at itself the folder of its files is such a one.
    assert usage(os.getpid()).files > 0
