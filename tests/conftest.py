"""What holds for every test: a property is judged by its examples, not by how long the machine takes for one, and a
JVM that lives for seconds is not worth the better of its two compilers.

While many thousand tests are collected there is no garbage, and they are none later: nobody looks for it among them.
"""

import gc
import os

from hypothesis import settings

from everbrook.spark.jobs.launching import QUICK_START

settings.register_profile("everbrook", deadline=None)
settings.load_profile("everbrook")
os.environ["SPARK_SUBMIT_OPTS"] = QUICK_START
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on."""
    gc.freeze()
    gc.enable()
