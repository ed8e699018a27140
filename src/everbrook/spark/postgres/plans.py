"""What Spark's own plans tell: whether rows come straight from the source, and how much a batch is.

Both are implementation details of Spark. Where they are not what they were, rows are parted anew and batches are taken
for large ones, which is slower and as right.
"""

import json
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark.planning import ranges_between
from everbrook.spark.positions import VERSION_KEY

_NARROW = {"Project", "Filter", "SubqueryAlias"}
"""What leaves rows in their task, and in their order."""
_SOURCE = "everbrook"
_RELATION = "StreamingRelationV2"
_PLACE = {"stream", "offset", "next_offset"}


def whole_streams(df: DataFrame) -> bool:
    """Tell whether all rows of a stream are in one task, in their order: as the source gives them."""
    try:
        node: Any = df._jdf.queryExecution().analyzed()  # noqa: SLF001 - there is no other way to ask
        chosen = _attributes(node)
        while node.nodeName() in _NARROW:
            node = node.children().head()
        if node.nodeName() != _RELATION or node.sourceName() != _SOURCE:
            return False
        if any(chosen.get(name) != given for name, given in _attributes(node).items() if name in _PLACE):
            return False
        return int(node.extraOptions().get("minPartitions") or 1) == 1
    except (Py4JError, AttributeError, TypeError, ValueError):
        return False


def _attributes(node: Any) -> dict[str, int]:  # noqa: ANN401 - a plan of Scala
    """Give the columns of a plan with the numbers that Spark knows them by. One made of others has a new number."""
    output = node.output()
    return {output.apply(place).name(): output.apply(place).exprId().id() for place in range(output.size())}


def size_of_batch(query: StreamingQuery) -> int | None:
    """Tell how many bytes of messages the batch has that a query runs now, as far as offsets count bytes."""
    try:
        context = query._jsq.streamingQuery().getLatestExecutionContext()  # noqa: SLF001
        start, end = _positions(context.startOffsets()), _positions(context.endOffsets())
    except (Py4JError, AttributeError, TypeError, ValueError):
        return None
    if end is None:
        return None
    sizes = [range_.size_bytes for range_ in ranges_between(start or {}, end)]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _positions(progress: Any) -> dict[str, str] | None:  # noqa: ANN401 - a map of Scala
    """Read the offsets of the one source of a query. None if there are others, or they are not of streams."""
    if progress.size() != 1:
        return None
    found: dict[str, str] = json.loads(progress.head()._2().json())  # noqa: SLF001 - Scala's name
    return found if VERSION_KEY in found else None
