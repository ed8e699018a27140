"""The catalogue: names, forks and what can expire, without reading a log."""

from pathlib import Path

from msgspec.structs import replace

from everbrook.protocol import Write
from everbrook.storage.files.entries import Entries
from everbrook.storage.files.logs import Logs
from tests.storage.drafts import Draft
from tests.storage.files.opening import abandon, commit, open_files


def mortal(name: bytes, incarnation: int, **lifetime: int) -> Write:
    write = Draft(name, incarnation).write(b"x")
    identity = replace(write.head.identity, **lifetime)
    return replace(write, head=replace(write.head, identity=identity))


def test_a_snapshot_gives_back_what_was_entered() -> None:
    entries = Entries()
    source = Draft(b"s", 1)
    entries.apply((source.write(), Draft(b"f", 2, source=source).write(), Draft(b"", 3).write()))
    entries.apply((mortal(b"m\xff", 2**63, ttl_secs=1), mortal(b"n" * 400, 4, expires_at=1)))
    found = Entries.unpack(entries.pack())
    assert found.names == {b"s": 1, b"f": 2, b"": 3, b"m\xff": 2**63, b"n" * 400: 4}
    assert [found.fork_count(number) for number in (1, 2)] == [1, 0]
    assert list(found.mortal_after(0)) == [4, 2**63]
    assert found.pack() == entries.pack()


def test_streams_that_can_expire_are_given_in_their_order(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    streams = [mortal(b"%d" % number, number, ttl_secs=60) for number in (5, 3, 9)]
    commit(storage, (Draft(b"forever", 4).write(),), *((write,) for write in streams))
    for _ in range(2):
        assert [head.identity.incarnation for head in storage.mortal(0, 2)] == [3, 5]
        assert [head.identity.incarnation for head in storage.mortal(5, 2)] == [9]
        assert storage.mortal(9, 2) == []
        storage.close()
        storage = open_files(tmp_path)
    storage.close()


def test_only_a_few_streams_that_can_expire_are_read_at_once(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    commit(storage, *((mortal(b"%d" % number, number, ttl_secs=60),) for number in range(1, 101)))
    assert 0 < len(storage.mortal(0, 256)) < 50
    storage.close()


def test_it_does_not_grow_with_what_is_past(tmp_path: Path) -> None:
    storage = open_files(tmp_path, renew_at_bytes=2000)
    commit(storage, (Draft(b"kept", 1).write(b"x"),))
    for number in range(2, 200):
        stream = Draft(b"a", number)
        commit(storage, (stream.write(b"x"),))
        commit(storage, (stream.drop(),))
    [path] = tmp_path.glob("catalogue-*.log")
    assert path.stat().st_size < 5000
    abandon(storage)
    storage = open_files(tmp_path)
    assert storage.load(b"kept")
    assert storage.load(b"a") is None
    storage.close()


def test_numbers_of_a_crashed_time_are_not_used_again(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    numbers = []
    for number in range(1, 4):
        commit(storage, (Draft(b"%d" % number, number).write(b"x"),))
        numbers.append(Logs(storage.disk, storage.layout).open(number).number)
        abandon(storage)
        storage = open_files(tmp_path)
    storage.close()
    assert [number >> 40 for number in numbers] == [1, 2, 3]
