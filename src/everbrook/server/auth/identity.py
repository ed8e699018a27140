"""Who a request is of, and what that one may do. How it was proven is not known here."""

from enum import StrEnum

from msgspec import Struct


class Verb(StrEnum):
    """What can be granted below a path."""

    READ = "read"
    APPEND = "append"
    CREATE = "create"
    DELETE = "delete"
    ADMIN = "admin"


class Grant(Struct, frozen=True):
    """Verbs that are allowed on a path and everything below it. `prefix` is decoded and has no slash at its end."""

    verbs: frozenset[Verb]
    prefix: bytes


class Identity(Struct, frozen=True):
    """Who asks. `subject` is unique among those whose identity was proven in the same way (`source`).

    One that is `shared` is that of many: what one of them does must not count for the others.
    """

    subject: str
    source: str
    grants: tuple[Grant, ...] = ()
    expires_at_secs: float | None = None
    shared: bool = False
