"""What holds for every test: a property is judged by its examples, not by how long the machine takes for one, and a
JVM that lives for seconds is not worth the better of its two compilers, nor loading the same classes again.

A shell starts what it puts in the background with SIGINT ignored, which every process inherits. Tests press Ctrl-C, so
it counts here, wherever pytest was started.

While many thousand tests are collected there is no garbage, and they are none later: nobody looks for it among them.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from everbrook.spark.launchers import QUICK_START
from tests.schedule import longest_first, read_durations

# The same examples in every run; `make soak` draws new ones, and prints how to replay those that fail.
settings.register_profile("everbrook", settings.get_profile("default"), deadline=None, derandomize=True)
settings.register_profile("soak", settings.get_profile("default"), deadline=None, print_blob=True)
settings.load_profile(os.environ.get("EVERBROOK_HYPOTHESIS", "everbrook"))
gc.disable()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SPARK = Path(__file__).with_name("spark")
WORKER_IS_LATE = "Python worker failed to connect back"
"""What Spark says when a Python process has not begun within 10 seconds."""


def java_options() -> str:
    """Give the options of a JVM. An archive of classes that it can't use is passed over without a word."""
    archive = Path(sys.prefix, "spark.jsa")
    if not (archive.is_file() and archive.stat().st_size):
        return QUICK_START
    return f"{QUICK_START} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


os.environ["SPARK_SUBMIT_OPTS"] = java_options()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Give each file to one worker, whatever `--dist` says."""
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Retry a failed test of time once: a busy machine may miss a bound, a fault misses it twice.

    A test of Spark is retried only when it missed Spark's own bound, which no setting moves. No other test is retried.
    """
    if hasattr(config, "workerinput"):
        longest_first(items, read_durations())
    for item in items:
        if item.get_closest_marker("timing") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))
        elif Path(item.path).is_relative_to(SPARK):
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=[WORKER_IS_LATE]))


@pytest.fixture
def faults(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Expect faults, and give the log that they are in. Without it a fault in the log fails the test."""
    return caplog


@pytest.fixture(autouse=True)
def _no_hidden_faults(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The engine goes on after an exception in a callback: in a test, that may be an assertion."""
    yield
    if "faults" not in request.fixturenames:
        hidden = [record for record in caplog.get_records("call") if record.name == "everbrook.engine.faults"]
        assert not [record.exc_info for record in hidden]


def pytest_collection_finish() -> None:
    """Look for garbage from now on."""
    gc.freeze()
    gc.enable()
