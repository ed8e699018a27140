"""All kinds of sources and sinks. A new one joins a list, and files may name it."""

from typing import Any

from everbrook.spark.jobs.database import TableSink, TableSource
from everbrook.spark.jobs.folds import FoldSource
from everbrook.spark.jobs.job import Sink, Source
from everbrook.spark.jobs.lake import LakeSink, LakeSource
from everbrook.spark.jobs.streams import StreamSink, StreamSource
from everbrook.spark.jobs.tables import WrongValue, build, require_known

SOURCES: tuple[Any, ...] = (StreamSource, FoldSource, TableSource, LakeSource)
SINKS: tuple[Any, ...] = (StreamSink, TableSink, LakeSink)


def build_source(table: dict[str, object], key: str) -> Source:
    """Make a source of what stands in a table."""
    found: Source = build(_chosen(SOURCES, table, key), table, key)
    return found


def build_sink(table: dict[str, object], key: str) -> Sink:
    """Make a sink of what stands in a table."""
    found: Sink = build(_chosen(SINKS, table, key), table, key)
    return found


def _chosen(kinds: tuple[Any, ...], table: dict[str, object], key: str) -> Any:
    """Choose the kind by its marks. Marks of two kinds contradict each other; without any, nothing is said."""
    found = {kind: [name for name in table if name in kind.MARKS] for kind in kinds}
    marked = _narrowest({kind: names for kind, names in found.items() if names})
    if len(marked) > 1:
        first, second, *_ = (names[0] for names in marked.values())
        raise WrongValue(key, f"{first} and {second} say different things: give one of them")
    if marked:
        return next(iter(marked))
    marks = list(dict.fromkeys(name for kind in kinds for name in kind.MARKS))
    require_known(table, [*marks, *(name for kind in kinds for name in kind.__struct_fields__)], key)
    raise WrongValue(key, f"which? Give one of {', '.join(marks)}")


def _narrowest(marked: dict[Any, list[str]]) -> dict[Any, list[str]]:
    """Leave out kinds whose marks are keys of another one that has a mark of its own besides."""
    return {
        kind: names
        for kind, names in marked.items()
        if not any(
            set(names) <= set(other.__struct_fields__) and not set(its) <= set(kind.__struct_fields__)
            for other, its in marked.items()
        )
    }
