"""Reads Spark's query plans: whether rows come straight from the source, the size of a batch, and its incarnations.

These are implementation details of Spark. If another version has others, rows are repartitioned and each batch counts
as large, which is slower but correct, and incarnations are unknown, as on a server that reports none.
"""

import json
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark.streams.offsets import VERSION_KEY, Position, parse_position
from everbrook.spark.streams.ranges import ranges_between

_NARROW = {"Project", "Filter", "SubqueryAlias"}
"""Nodes that leave rows in their task, and in their order."""
_BOUNDED = _NARROW | {"View", "Repartition", "RepartitionByExpression", "EventTimeWatermark"}
"""Nodes whose output has at most the rows of their input."""
_SOURCE = "everbrook"
_RELATION = "StreamingRelationV2"
_PLACE = {"stream", "offset", "next_offset"}


def whole_streams(df: DataFrame) -> bool:
    """Return whether all rows of a stream are in one task, in their order, as the source makes them."""
    try:
        node: Any = df._jdf.queryExecution().analyzed()
        chosen = _attributes(node)
        node = _below(node, _NARROW)
        if not _is_source(node):
            return False
        if any(chosen.get(name) != given for name, given in _attributes(node).items() if name in _PLACE):
            return False
        # With more partitions than streams, a stream may be divided among tasks.
        return int(node.extraOptions().get("minPartitions") or 1) == 1
    except (Py4JError, AttributeError, TypeError, ValueError):
        return False


def keeps_size(df: DataFrame) -> bool:
    """Return whether rows are those of the source, or fewer: then a batch is about as large as what it reads."""
    try:
        return _is_source(_below(df._jdf.queryExecution().analyzed(), _BOUNDED))
    except (Py4JError, AttributeError, TypeError):
        return False


def _below(node: Any, names: set[str]) -> Any:
    while node.nodeName() in names:
        node = node.children().head()
    return node


def _is_source(node: Any) -> bool:
    return bool(node.nodeName() == _RELATION and node.sourceName() == _SOURCE)


def _attributes(node: Any) -> dict[str, int]:
    """Return the columns of a plan with Spark's ids of expressions. A column made of others has a new id."""
    output = node.output()
    return {output.apply(place).name(): output.apply(place).exprId().id() for place in range(output.size())}


def size_of_batch(query: StreamingQuery) -> int | None:
    """Return the bytes of messages that the running batch of a query reads.

    None if some offsets are no counts of bytes.
    """
    bounds = _bounds(query)
    ranges = [range_ for each in bounds if each is not None for range_ in ranges_between(*each)]
    sizes = [range_.size_bytes for range_ in ranges]
    return None if not bounds or None in (*bounds, *sizes) else sum(size or 0 for size in sizes)


def incarnations_of(query: StreamingQuery) -> dict[str, str]:
    """Return the incarnations of the streams in the batch that a query runs now, as far as they are known."""
    return {name: position.incarnation for name, position in identities_of(query).items()}


def identities_of(query: StreamingQuery) -> dict[str, Position]:
    """Return a position of each stream in the batch that a query runs now, if its incarnation is known."""
    known: dict[str, dict[str, Position]] = {}
    for bounds in _bounds(query):
        start, end = bounds or ({}, {})
        for name, text in end.items():
            if name != VERSION_KEY and start.get(name) != text:
                position = parse_position(text)
                known.setdefault(name, {})[position.incarnation] = position
    return {name: next(iter(found.values())) for name, found in known.items() if len(found) == 1 and "" not in found}


def _bounds(query: StreamingQuery) -> list[tuple[dict[str, str], dict[str, str]] | None]:
    """Read where the batch begins and ends in each source of a query. None stands for a source of another kind."""
    try:
        context = query._jsq.streamingQuery().getLatestExecutionContext()
        starts, ends = context.startOffsets(), context.endOffsets()
        sources = ends.keys().toSeq()
        chosen = [sources.apply(place) for place in range(sources.size())]
        return [_positions(starts, ends, source) for source in chosen]
    except (Py4JError, AttributeError, TypeError, ValueError):
        return []


def _positions(starts: Any, ends: Any, source: Any) -> tuple[dict[str, str], dict[str, str]] | None:
    end: dict[str, str] = json.loads(ends.apply(source).json())
    start: dict[str, str] = json.loads(starts.apply(source).json()) if starts.contains(source) else {}
    return (start, end) if VERSION_KEY in end else None
