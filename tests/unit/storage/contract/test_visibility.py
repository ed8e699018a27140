"""The contract: what is persisted, what is visible, and what a head tells."""

import pytest

from everbrook.protocol import Claim, Fork, Head, Identity, Write
from everbrook.storage import Record
from tests.kit.drafts import Draft
from tests.unit.storage.engines import Store


def test_it_says_what_an_acknowledgement_survives(store: Store) -> None:
    assert store.storage.promise
    assert store.storage.blocking in {True, False}


def test_a_name_that_was_never_written_loads_nothing(store: Store) -> None:
    assert store.storage.load(b"a") is None


def test_what_is_only_persisted_is_not_visible(store: Store) -> None:
    before = store.storage.used_bytes
    store.storage.persist([(Draft(b"a", 1).write(b"one"),)])
    assert store.storage.load(b"a") is None
    assert store.storage.used_bytes == before


def test_what_is_persisted_and_not_applied_stays_behind_what_was_applied(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"one"),))
    visible = stream.head
    store.storage.persist([(stream.write(b"two"),)])
    assert store.storage.load(b"a") == Record(visible, {})
    assert store.storage.boundary_at_or_before(1, 6) == 3


def test_what_is_applied_is_visible(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"one"),))
    assert store.storage.load(b"a") == Record(stream.head, {})
    assert store.storage.read(1, 0, 3) == b"one"


def test_a_group_that_was_persisted_is_there_after_a_crash(durable_store: Store) -> None:
    stream = Draft(b"a", 1)
    durable_store.storage.persist([(stream.write(b"one"),), (stream.write(b"two"),)])
    durable_store.reopen()
    assert durable_store.storage.load(b"a") == Record(stream.head, {})
    assert durable_store.storage.read(1, 0, 6) == b"onetwo"


def test_reopening_changes_nothing_however_often(durable_store: Store) -> None:
    stream = Draft(b"a", 1)
    durable_store.commit((stream.write(b"one"),))
    used_bytes = durable_store.storage.used_bytes
    for _ in range(3):
        durable_store.reopen()
    assert durable_store.storage.load(b"a") == Record(stream.head, {})
    assert durable_store.storage.used_bytes == used_bytes


def test_an_empty_stream_is_a_stream(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(),))
    assert store.storage.load(b"a") == Record(stream.head, {})
    assert store.storage.boundary_at_or_before(1, 0) == 0


def test_the_newest_head_replaces_the_one_before(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"one"),))
    store.commit((stream.write(closed=True),))
    assert store.storage.load(b"a") == Record(stream.head, {})
    assert store.storage.read(1, 0, 3) == b"one"


@pytest.mark.parametrize("name", [b"a", b"a/b", b"a\xff\x00\n", b"n" * 400], ids=["plain", "slash", "odd", "long"])
def test_any_bytes_are_a_name(store: Store, name: bytes) -> None:
    stream = Draft(name, 1)
    store.commit((stream.write(b"one"),))
    assert store.storage.load(name) == Record(stream.head, {})


def test_every_field_of_a_head_comes_back(store: Store) -> None:
    source = Draft(b"s", 1)
    identity = Identity(b"a", 2, b"Text/Plain; x=1", b"text/plain", 11, 60, 12, Fork(b"s", 1, 3, 1, 2))
    head = Head(identity, 3, 13, closed=True, closed_by=Claim(b"p", 4, 5), stream_seq=b"\xff", deleted=True)
    store.commit((source.write(b"one"),), (Write(head, created=True),))
    assert store.storage.load(b"a") == Record(head, {})


def test_a_group_keeps_the_order_of_its_changes(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"1"),), (stream.write(b"22"),), (stream.write(b"333", closed=True),))
    assert store.storage.load(b"a") == Record(stream.head, {})
    assert store.storage.read(1, 0, 6) == b"122333"


def test_a_group_holds_changes_of_several_streams(store: Store) -> None:
    streams = [Draft(b"%d" % number, number) for number in range(1, 4)]
    store.commit(*((stream.write(stream.name),) for stream in streams))
    assert [store.storage.load(stream.name) for stream in streams] == [Record(stream.head, {}) for stream in streams]


def test_a_change_holds_edits_of_several_streams(store: Store) -> None:
    one, two = Draft(b"one", 1), Draft(b"two", 2)
    store.commit((one.write(b"1"), two.write(b"22")))
    store.commit((one.drop(), two.write(b"2")))
    assert store.storage.load(b"one") is None
    assert store.storage.load(b"two") == Record(two.head, {})
    assert store.storage.read(2, 0, 3) == b"222"


def test_an_empty_group_changes_nothing(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"one"),))
    store.commit()
    assert store.storage.load(b"a") == Record(stream.head, {})
