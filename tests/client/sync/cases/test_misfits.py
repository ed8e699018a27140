# Written by tools/mirror.py from tests/client/async_/cases/test_misfits.py: change that file, not this one.
"""What is of another kind than it should be: told with its place, and nothing that is sound is lost over it."""

from contextlib import closing
from pathlib import Path

import pytest

from everbrook.client._sync.client import Client
from everbrook.client.errors import InvalidMessage
from everbrook.client.offsets import FileOffsets
from everbrook.client.timeouts import ClientTuning
from tests.kit.faults.writer import Writer


def test_values_before_one_of_another_type_are_handed_out(writer: Writer, client: Client) -> None:
    writer.create("application/json", b'[0, 1, "x", 3]')
    numbers = client.stream(writer.name, type=int)
    reader = iter(numbers.read())
    assert [next(reader), next(reader)] == [0, 1]
    with pytest.raises(InvalidMessage, match=r"the message at offset 0{15}4: b'\"x\"'.*`int`"):
        next(reader)


def test_whoever_wants_to_passes_a_message_of_another_type(writer: Writer, client: Client) -> None:
    writer.create("application/json", b'[0, 1, "x", 3]')
    numbers = client.stream(writer.name, type=int)
    with pytest.raises(InvalidMessage) as misfit:
        numbers.read().all()
    assert misfit.value.before == [0, 1]
    assert numbers.read(str(misfit.value.next_offset)).all() == [3]


@pytest.mark.parametrize("token", ["é", "a\nb"])
def test_a_token_that_no_header_can_carry_is_refused(server: str, token: str) -> None:
    with Client(server, token=token) as client, pytest.raises(ValueError, match="can't be sent"):
        client.stream("any").head()


def test_a_file_that_holds_no_offset_is_named(writer: Writer, client: Client, tmp_path: Path) -> None:
    writer.create("application/json", b"1")
    (tmp_path / "kept").write_bytes(b"\xff\x00")
    with pytest.raises(ValueError, match="kept must hold an offset"):
        client.stream(writer.name).follow(offsets=FileOffsets(tmp_path / "kept")).all()


def test_a_position_within_a_page_is_kept_while_it_is_read(writer: Writer, server: str, tmp_path: Path) -> None:
    """A program that is killed in the middle of a page goes on there."""
    writer.create("application/json", b"[1, 2, 3, 4]")
    kept = FileOffsets(tmp_path / "kept")
    with Client(server, tuning=ClientTuning(save_secs=0.0)) as client:
        stream = client.stream(writer.name)
        with closing(iter(stream.follow(offsets=kept))) as values:
            assert [next(values) for _ in range(3)] == [1, 2, 3]
            assert stream.read(str(kept.load())).all() == [3, 4]
