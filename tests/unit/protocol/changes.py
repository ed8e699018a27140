"""Generated changes and messages of both dialects."""

from hypothesis import strategies as st
from msgspec import UNSET

from everbrook import Append, Remove, Reset, Set
from everbrook.protocol import SnapshotEnd, SnapshotStart

names = st.text(alphabet="aé:1", min_size=1, max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=4,
)
txids = st.none() | names
timestamps = st.sampled_from([None, "2025-01-15T10:30:00Z", "2025-01-15t10:30:00.123+01:00"])
old_values = st.just(UNSET) | json_values
offsets = st.none() | names

sets = st.builds(
    Set, names, names, json_values, st.sampled_from(["insert", "update", "upsert"]), old_values, txids, timestamps
)
removes = st.builds(Remove, names, names, old_values, txids, timestamps)
appends = st.builds(Append, names, names, json_values)
plain_sets = st.builds(Set, names, names, json_values)
plain_removes = st.builds(Remove, names, names)
controls = st.builds(SnapshotStart, offsets) | st.builds(SnapshotEnd, offsets) | st.builds(Reset, offsets)

# Few entities, so that changes meet each other.
few = st.sampled_from(["a", "b"])
texts_and_lists = st.text(max_size=2) | st.lists(st.integers(0, 9), max_size=2)
changes_of_few = (
    st.builds(Set, few, few, json_values, txid=txids)
    | st.builds(Remove, few, few, txid=txids)
    | st.builds(Append, few, few, texts_and_lists)
    | st.just(Reset())
    | st.just(SnapshotStart())
)
