"""Old rows: how much Postgres has told of a row before it was changed, and whether that will do.

Postgres logs old rows in whole or by their key, as each table is set (REPLICA IDENTITY), and a partition as it is set
itself. But changes of partitions are told as those of their root: if the root is set to whole rows and the partition
is not, its old rows seem to be whole, and to have nothing but NULL besides the key.
"""

from collections.abc import Mapping

from everbrook.spark.capture.errors import START_OVER, ChangesLost
from everbrook.spark.capture.events import Captured
from everbrook.spark.capture.pgoutput import Delete, Relation, Update
from everbrook.spark.capture.positions import Shape, format_lsn

WHOLE = "f"


class OldRows:
    """Tells whole old rows from those that only seem to be."""

    def __init__(self, tables: Mapping[int, Captured]) -> None:
        self._captured = tables
        self._before: int | None = None
        self._roots_by_leaf: dict[int, int] = {}

    def clear(self) -> None:
        """Forget what an earlier connection has told."""
        self._before = None
        self._roots_by_leaf.clear()

    def note(self, message: Relation) -> None:
        """Take how a table is set. A partition is told directly behind its root."""
        root, self._before = self._before, message.id
        if message.identity == WHOLE:
            self._roots_by_leaf.pop(message.id, None)
        elif root is not None and message.id not in self._captured and self._partitioned(root):
            self._roots_by_leaf[message.id] = root

    def _partitioned(self, relation_id: int) -> bool:
        return relation_id in self._captured and self._captured[relation_id].partitioned

    def whole(self, message: Update | Delete, others: tuple[int, ...]) -> bool:
        """Tell whether a change has all of the old row. `others` are the columns besides the key."""
        old = message.old
        if old is None or not message.whole:
            return False
        if not self._roots_by_leaf or message.relation_id not in self._roots_by_leaf.values() or not others:
            return True
        return any(old[place] is not None for place in others)


def needs_whole(shape: Shape, relation: Relation, place: int | None) -> bool:
    """Tell whether keys and streams of old rows are known only from whole ones."""
    by_column = place is not None and shape.columns[place].name not in shape.key
    by_other_key = relation.identity != WHOLE and not relation.identifying.issuperset(shape.key)
    return by_column or by_other_key or not shape.attributes


def not_whole(table: str, lsn: int) -> ChangesLost:
    """Tell that a change can't be told."""
    return ChangesLost(
        f"a row of {table} was changed at {format_lsn(lsn)}, and Postgres has not logged all of the row before, which "
        "its stream or key is known from: the table, or a partition of it that was made since, was not set to REPLICA "
        f"IDENTITY FULL. {START_OVER}"
    )
