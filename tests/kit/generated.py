"""How generated cases are run and what they are made of."""

from collections.abc import Iterator

from hypothesis import settings, strategies as st

# No deadline: a busy machine is not a bug. No database: these tests touch no disk.
generated = settings(max_examples=100, deadline=None, database=None)

payloads = st.one_of(st.binary(max_size=60), st.text(alphabet=" \r\n:aéd", max_size=30).map(str.encode))
chunk_sizes = st.lists(st.integers(1, 8), min_size=1, max_size=12)


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Cut bytes into chunks of these sizes, over and over."""
    start = turn = 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        yield data[start : start + size]
        start, turn = start + size, turn + 1
