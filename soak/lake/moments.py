"""The moments at which a driver is killed, and the flaws of the control; both are put into the product's own classes.

At each moment a line is written to the journal, and the driver dwells for an instant, so that a kill can strike there.
"""

import time
from collections.abc import Callable
from typing import Any

from deltalake import CommitProperties, Transaction

from everbrook.spark.lake import delta
from everbrook.spark.lake.batches import BatchWriting
from everbrook.spark.lake.delta import DeltaLake
from everbrook.spark.lake.folder import ParquetFolder
from everbrook.spark.lake.tables import Table
from soak.spark.journal import note

DELTA, PARQUET = "delta", "parquet"
KINDS: dict[str, type[Any]] = {DELTA: DeltaLake, PARQUET: ParquetFolder}
BEGUN, WRITTEN, COMMITTED, COMPACTING = "begun", "files written", "committed", "compacting"
MOMENTS = (BEGUN, WRITTEN, COMMITTED, COMPACTING)
_DWELL_SECS = 0.15


def watch() -> None:
    """Tell of each moment."""
    for name, kind in KINDS.items():
        _before(kind, "staging", name, BEGUN)
        _before(kind, "commit", name, WRITTEN)
        _before(kind, "compact", name, COMPACTING)
    commit = BatchWriting._commit  # noqa: SLF001 - there is no other place between the commit and Spark's own

    def commit_watched(self: BatchWriting, *arguments: Any) -> None:  # noqa: ANN401
        commit(self, *arguments)
        _dwell(self._options.format, COMMITTED)

    _replace(BatchWriting, "_commit", commit_watched)


def _before(kind: type[Any], method: str, name: str, moment: str) -> None:
    original: Callable[..., Any] = getattr(kind, method)

    def watched(self: Table, *arguments: Any) -> Any:  # noqa: ANN401
        _dwell(name, moment)
        return original(self, *arguments)

    _replace(kind, method, watched)


def _dwell(name: str, moment: str) -> None:
    note(name, moment)
    time.sleep(_DWELL_SECS)


def forget_batches() -> None:
    """Break the rule: no table knows which batches it has. A batch that runs again is there twice."""
    for kind in KINDS.values():
        _replace(kind, "has", lambda _self, _batch: False)
        _replace(kind, "recover", lambda _self: None)
    _replace(DeltaLake, "_done", lambda _self, _table: -1)
    _replace(delta, "CommitProperties", _without_transaction)


def _without_transaction(app_transactions: list[Transaction]) -> CommitProperties:  # noqa: ARG001
    return CommitProperties()


def _replace(place: object, name: str, value: object) -> None:
    setattr(place, name, value)
