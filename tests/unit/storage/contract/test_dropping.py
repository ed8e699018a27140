"""The contract: a dropped stream leaves nothing, and its name can be another stream's at once."""

from everbrook.storage import Record
from tests.kit.drafts import Draft
from tests.unit.storage.engines import Store


def test_a_dropped_name_is_free(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"one"),))
    store.commit((stream.drop(),))
    assert store.storage.load(b"a") is None


def test_dropping_one_stream_leaves_the_others(store: Store) -> None:
    one, two = Draft(b"one", 1), Draft(b"two", 2)
    store.commit((one.write(b"1"),), (two.write(b"2"),))
    store.commit((one.drop(),))
    assert store.storage.load(b"two") == Record(two.head, {})
    assert store.storage.read(2, 0, 1) == b"2"


def test_a_name_passes_to_a_new_incarnation_within_one_change(store: Store) -> None:
    old, new = Draft(b"a", 1), Draft(b"a", 2, json=True)
    store.commit((old.write(b"old"),))
    store.commit((old.drop(), new.write(b"[],")))
    assert store.storage.load(b"a") == Record(new.head, {})
    assert store.storage.read(2, 0, 3) == b"[],"


def test_a_name_can_come_and_go_and_come_within_one_group(store: Store) -> None:
    before = store.storage.used_bytes
    old, new = Draft(b"a", 1), Draft(b"a", 2)
    store.commit((old.write(b"old"),), (old.drop(),), (new.write(b"new!"),))
    assert store.storage.load(b"a") == Record(new.head, {})
    assert store.storage.read(2, 0, 4) == b"new!"
    store.commit((new.drop(),))
    assert store.storage.used_bytes == before


def test_a_name_can_come_and_go_within_one_group(store: Store) -> None:
    before = store.storage.used_bytes
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"one"),), (stream.drop(),))
    assert store.storage.load(b"a") is None
    assert store.storage.used_bytes == before
