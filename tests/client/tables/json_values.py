"""Generated values of JSON: the awkward ones often."""

from typing import Any, TypeAlias

from hypothesis import strategies as st

Value: TypeAlias = Any
"""A value of JSON."""

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "é🙂", "2024-01-01", "2024-01-01T00:00:00Z", "1", "null", '"'],
    ),
    st.text(max_size=4),
)
names = st.sampled_from(["a", "b", "é", "_offset", "_time", "value", ""])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
rows = st.lists(values, max_size=6)
records = st.lists(st.dictionaries(names, values, max_size=4), max_size=6)
alike = st.lists(
    st.fixed_dictionaries({"n": st.integers(-5, 5) | st.none()}, optional={"s": st.text(max_size=3)}), max_size=8
)
