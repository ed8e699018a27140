"""Costs: about how much memory the state of a stream takes, in a storage and in the engine together."""

from collections.abc import Collection

STREAM_BYTES = 2048
"""What a stream takes beside its bytes: its head and identity, its run, its places in dictionaries."""

PRODUCER_BYTES = 512
"""What a producer takes beside its id, which a client chooses: its state, and its places in dictionaries."""


def producers_bytes(producer_ids: Collection[bytes]) -> int:
    """Give how much memory producers take."""
    return PRODUCER_BYTES * len(producer_ids) + sum(map(len, producer_ids))
