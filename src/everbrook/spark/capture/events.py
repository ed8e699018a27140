"""Changes as they wait to be read: the messages of each, and where the capture is behind it."""

from msgspec import Struct

from everbrook.spark.capture.positions import Shape
from everbrook.spark.capture.routing import Order
from everbrook.spark.capture.rows import Row


class Captured(Struct, frozen=True):
    """A table that is captured, under the name that its messages have as their type."""

    name: str
    shape: Shape
    partitioned: bool = False


class Event(Struct, frozen=True):
    """The messages of one change, or of none: then it only tells how far everything has been read."""

    order: Order
    rows: list[Row]
    shapes: dict[str, Shape]
    size_bytes: int = 0
