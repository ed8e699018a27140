"""Incarnations: one stream of a name is told from another that had it before."""

import pytest

from everbrook.protocol.errors import IncarnationMismatch
from everbrook.protocol.lifetime import format_incarnation, require_incarnation
from tests.kit.views import head_of

IDENTITY = head_of(incarnation=0xAB).identity


def test_a_stream_is_another_in_another_epoch_of_the_store() -> None:
    assert (format_incarnation(IDENTITY, 0), format_incarnation(IDENTITY, 1)) == (b"ab", b"aa")


@pytest.mark.parametrize("told", [b"ab", b"AB"])
def test_the_incarnation_that_is_there_is_accepted_in_any_case(told: bytes) -> None:
    require_incarnation(told, IDENTITY, 0)


@pytest.mark.parametrize("told", [b"", b"aa", b"0xab", b"ab "])
def test_another_incarnation_is_told_the_one_that_is_there(told: bytes) -> None:
    with pytest.raises(IncarnationMismatch) as refused:
        require_incarnation(told, IDENTITY, 0)
    assert refused.value.headers == ((b"Stream-Incarnation", b"ab"),)
