"""Outcomes: what became of a command that was not refused. A duplicate is an outcome, not an error."""

from msgspec import Struct

from everbrook.protocol.change import Change
from everbrook.protocol.state import Head, Producer
from everbrook.protocol.subscriptions.outcomes import Changed as SubscriptionChanged, Confirmed


class Created(Struct, frozen=True, gc=False):
    """The stream is new."""

    head: Head


class Existing(Struct, frozen=True, gc=False):
    """The stream was there, configured as asked."""

    head: Head


class Appended(Struct, frozen=True, gc=False):
    """New bytes are in the stream; it may be closed with them."""

    head: Head
    producer: Producer | None = None


class Closed(Struct, frozen=True, gc=False):
    """The stream is closed, by this command or before it, without new bytes."""

    head: Head
    producer: Producer | None = None


class Duplicate(Struct, frozen=True, gc=False):
    """The producer's append was in the stream already."""

    head: Head
    producer: Producer


class Deleted(Struct, frozen=True, gc=False):
    """The stream is gone from its URL."""


class Cut(Struct, frozen=True, gc=False):
    """The stream keeps another part of its past, or another snapshot."""

    head: Head


class Untouched(Struct, frozen=True, gc=False):
    """There was nothing to do."""


Outcome = (
    Created | Existing | Appended | Closed | Duplicate | Deleted | Cut | Untouched | SubscriptionChanged | Confirmed
)


class Decision(Struct, frozen=True, gc=False):
    """An outcome, and the change that must be durable before it is told."""

    outcome: Outcome
    change: Change = ()
