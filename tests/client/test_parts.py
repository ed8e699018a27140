"""Parts of the client are found by name when they are first used, and a name that is none is an error as usual."""

from types import ModuleType

import pytest

from everbrook.client._async import parts as async_parts
from everbrook.client._sync import parts as sync_parts

SIDES = [async_parts, sync_parts]


@pytest.mark.parametrize("name, side", [(name, side) for side in SIDES for name in side.__all__])
def test_every_part_is_where_it_is_looked_for(name: str, side: ModuleType) -> None:
    vars(side).pop(name, None)
    assert getattr(side, name).__name__ == name


@pytest.mark.parametrize("side", SIDES)
def test_a_name_that_is_no_part_is_not_found(side: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        side.nothing  # noqa: B018
