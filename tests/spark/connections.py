"""Connections of the connector that tests change."""

from everbrook.spark.connection import Connection


class Wrapped(Connection):
    """A connection that shares the transport of another one, and of which a test overrides methods."""

    def __init__(self, inner: Connection) -> None:
        vars(self).update(vars(inner))
