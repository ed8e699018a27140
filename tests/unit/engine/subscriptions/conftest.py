"""Engines with one subscription, of each kind."""

import pytest

from tests.unit.engine.subscriptions.subscribing import SubscribingRig, hooked_rig, pulled_rig


@pytest.fixture
def hooked() -> SubscribingRig:
    """An engine with a webhook subscription `s` to the empty stream `events/a`."""
    return hooked_rig()


@pytest.fixture
def pulled() -> SubscribingRig:
    """An engine with a pull-wake subscription `s` to the empty stream `events/a`."""
    return pulled_rig()
