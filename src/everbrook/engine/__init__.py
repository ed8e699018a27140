"""The engine: load, decide, store, wake. Time, order, waiting and limits belong here.

HTTP and the form of bytes on a disk do not.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.engine.clock import Clock as Clock
    from everbrook.engine.engine import Engine as Engine
    from everbrook.engine.faults import Callback as Callback, Faults as Faults
    from everbrook.engine.feed import Batch as Batch
    from everbrook.engine.limits import (
        MAX_COST_BYTES as MAX_COST_BYTES,
        MAX_COST_RATIO as MAX_COST_RATIO,
        PRODUCER_IDLE_MS as PRODUCER_IDLE_MS,
        UNLIMITED as UNLIMITED,
    )
    from everbrook.engine.stream import Stream as Stream
    from everbrook.engine.tuning import (
        CommitTuning as CommitTuning,
        EngineTuning as EngineTuning,
        FeedTuning as FeedTuning,
        SubscriptionsTuning as SubscriptionsTuning,
    )

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".clock": "Clock",
        ".engine": "Engine",
        ".faults": "Callback Faults",
        ".feed": "Batch",
        ".limits": "MAX_COST_BYTES MAX_COST_RATIO PRODUCER_IDLE_MS UNLIMITED",
        ".stream": "Stream",
        ".tuning": "CommitTuning EngineTuning FeedTuning SubscriptionsTuning",
    },
)
