"""Everbrook passes the official suite, whichever way a request comes in and wherever streams are kept."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.official.suite import Run, faults, retry_timed, run_suite
from tests.conformance.targets import TARGETS, Target, serving


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Run]]]:
    """Begin all runs that are asked for at once: a run mostly waits."""
    here = [item for item in request.session.items if item.path == request.path]
    asked = [target for target in TARGETS if any(f"[{target.name}]" in item.name for item in here)]
    with ThreadPoolExecutor(max(len(asked), 1)) as pool:
        yield {target.name: pool.submit(run_on, target, tmp_path_factory.mktemp(target.name)) for target in asked}


def run_on(target: Target, folder: Path) -> Run:
    with serving(target, folder) as base_url:
        return retry_timed(run_suite(base_url), base_url)


@pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in TARGETS])
def test_passes_every_test_of_the_official_suite(target: Target, runs: dict[str, Future[Run]]) -> None:
    found = faults(runs[target.name].result())
    if found:
        pytest.fail("\n".join([f"{target.name}: {len(found)} faults", *found]), pytrace=False)
