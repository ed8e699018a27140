"""The moments at which a driver is killed, and the flaws of the control; both are put into the product's own classes.

At each moment a line is written to the journal, and the driver dwells for an instant, so that a kill can strike there.
"""

import time
from collections.abc import Callable
from typing import Any

from deltalake import CommitProperties, Transaction

from everbrook.spark.lake import delta
from everbrook.spark.lake.delta import DeltaLake
from everbrook.spark.lake.lake_query import LakeBatchWriter
from soak.spark.journal import note

TABLE = "table"
"""What the journal, the checkpoint and the folder of the table are called."""
BEGUN, WRITTEN, COMMITTED, COMPACTING = "begun", "files written", "committed", "compacting"
MOMENTS = (BEGUN, WRITTEN, COMMITTED, COMPACTING)
_DWELL_SECS = 0.15


def watch() -> None:
    """Tell of each moment."""
    _before(LakeBatchWriter, "_settled", BEGUN)
    _before(DeltaLake, "commit", WRITTEN)
    _before(DeltaLake, "compact", COMPACTING)
    commit = LakeBatchWriter._commit  # noqa: SLF001 - there is no other place between the commit and Spark's own

    def commit_watched(self: LakeBatchWriter, *arguments: Any) -> None:  # noqa: ANN401
        commit(self, *arguments)
        _dwell(COMMITTED)

    _replace(LakeBatchWriter, "_commit", commit_watched)


def _before(kind: type[Any], method: str, moment: str) -> None:
    original: Callable[..., Any] = getattr(kind, method)

    def watched(self: object, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        _dwell(moment)
        return original(self, *arguments, **named)

    _replace(kind, method, watched)


def _dwell(moment: str) -> None:
    note(TABLE, moment)
    time.sleep(_DWELL_SECS)


def forget_batches() -> None:
    """Break the rule: the table does not know which batches it has. A batch that runs again is there twice."""
    _replace(DeltaLake, "has", lambda _self, _batch: False)
    _replace(DeltaLake, "recover", lambda _self: None)
    _replace(DeltaLake, "_done", lambda _self, _table: -1)
    _replace(delta, "CommitProperties", _without_transaction)


def _without_transaction(app_transactions: list[Transaction]) -> CommitProperties:  # noqa: ARG001
    return CommitProperties()


def _replace(place: object, name: str, value: object) -> None:
    setattr(place, name, value)
