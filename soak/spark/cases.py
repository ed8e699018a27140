"""What is run: the ways to read and to write, and the controls, in each of which one rule is broken.

A control has to be found out by the very kind of damage that its flaw does; one that is not makes the soak fail. Two
queries run in one driver, in the order of the lists, so that one kill hits both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

LOST, TWICE, OUT_OF_ORDER = "lost", "twice", "out of order"
MANY, FEW = "many/", "few/"
"""Sources: some that get bursts at times, and a few that never get more than the driver reads by itself."""
MAX_APPEND_BYTES = 48 * 1024
"""Less than a burst is, so that it takes several appends to write one."""


@dataclass(frozen=True, slots=True)
class Case:
    """A query: what it reads, which sink it uses, and what is special about it."""

    name: str
    helper: bool = False
    """Whether `write_stream` writes, or `format("everbrook")`."""
    source: str = MANY
    by_tasks: bool = False
    """Whether tasks read every batch, or the driver reads small ones."""
    merged: bool = False
    """Whether all rows go to one stream, or to as many as there are sources."""
    text: bool = False
    """Whether it writes streams of text, in which each row is an append of its own."""
    flaw: str = ""
    finding: str = ""
    """What a control has to be found out by."""
    repeats: bool = False
    """Whether the flaw shows in batches that are run again, so that a kill is needed between append and commit."""

    @property
    def target(self) -> str:
        """What the names of the streams that it writes begin with."""
        return f"out/{self.name}{'' if self.merged else '/'}"


VARIANTS = (
    Case("plain"),
    Case("helper", helper=True),
    Case("plain-tasks", by_tasks=True, merged=True),
    Case("helper-tasks", helper=True, by_tasks=True, merged=True),
    Case("plain-few", source=FEW, merged=True),
    Case("helper-few", helper=True, source=FEW),
    Case("text", by_tasks=True, text=True, merged=True),
    Case("text-helper", helper=True, text=True, source=FEW),
)
CONTROLS = (
    Case("producer-of-a-run", source=FEW, flaw="producer for each run", finding=TWICE, repeats=True),
    Case("one-epoch", by_tasks=True, flaw="one epoch", finding=LOST),
    Case("no-producer", helper=True, source=FEW, flaw="no producer", finding=TWICE, repeats=True),
    Case("positions-of-now", helper=True, source=FEW, flaw="positions of now", finding=LOST),
    Case("clock-epochs", helper=True, by_tasks=True, flaw="epochs of a clock", finding=TWICE, repeats=True),
    Case("no-order", helper=True, flaw="no order", finding=OUT_OF_ORDER),
    Case("ends-at-the-tail", flaw="ends at the tail", finding=TWICE, repeats=True),
)
PER_DRIVER = 2
"""More at once would take so long to start on few cores that Spark loses patience."""
CASES = {case.name: case for case in (*VARIANTS, *CONTROLS)}


def groups(cases: Sequence[Case], names: Sequence[str]) -> list[list[Case]]:
    """Give the cases of these names, or all of them, as drivers run them."""
    chosen = [case for case in cases if not names or case.name in names]
    return [chosen[start : start + PER_DRIVER] for start in range(0, len(chosen), PER_DRIVER)]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a run of the queries is parted among tasks. It is another one for each run."""

    cores: int
    min_partitions: int
    max_partitions: int
    shuffle_partitions: int
    repartition: int
    """Into how many parts rows are dealt before they are written; 0 leaves them."""
    max_rows: int
    """How many rows a batch takes; 0 is all that there are."""

    def __str__(self) -> str:
        """Say it in a few words."""
        dealt = f", dealt to {self.repartition}" if self.repartition else ""
        limited = f", {self.max_rows} rows a batch" if self.max_rows else ""
        return f"local[{self.cores}], {self.min_partitions} to {self.max_partitions} tasks{dealt}{limited}"


def draw_shape(random: Random, *, last: bool) -> Shape:
    """Choose a shape. The last run is to come to its end."""
    fewest = random.randrange(1, 5)
    return Shape(
        cores=random.randrange(1, 4),
        min_partitions=fewest,
        max_partitions=random.randrange(fewest, 7),
        shuffle_partitions=random.randrange(1, 5),
        repartition=random.choice((0, 0, 1, 2, 4)),
        max_rows=random.choice((0, 20_000) if last else (0, 0, 700, 4_000)),
    )
