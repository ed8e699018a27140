"""The driver is killed while it writes a table, and goes on: the table equals the streams, row for row."""

import pytest

from soak.lake.killing import run


@pytest.mark.long
def test_the_table_equals_the_streams_after_a_kill(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Spark has sockets below it, whose paths may have 107 characters.
    compared = run(tmp_path_factory.mktemp("k") / "s", kills=1, seed=11, max_secs=600)
    assert str(compared) == "exactly once and in order"
