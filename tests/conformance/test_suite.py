"""Everbrook passes the official suite, whichever way a request comes in and wherever streams are kept."""

from pathlib import Path

import pytest

from tests.conformance.suite import faults, run_suite
from tests.conformance.targets import TARGETS, Target, serving


@pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in TARGETS])
def test_passes_every_test_of_the_official_suite(target: Target, tmp_path: Path) -> None:
    with serving(target, tmp_path) as base_url:
        run = run_suite(base_url)
    found = faults(run)
    if found:
        pytest.fail("\n".join([f"{target.name}: {len(found)} faults", *found]), pytrace=False)
