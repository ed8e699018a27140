"""The state of a stream."""

import pytest
from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol import (
    WHOLE,
    Append,
    Appended,
    Claim,
    Closed,
    Create,
    CreateBucket,
    Created,
    Cut,
    Delete,
    DeleteBucket,
    Deleted,
    DeleteSnapshot,
    Drop,
    Duplicate,
    Event,
    Existing,
    Expire,
    Fork,
    ForkFrom,
    Kept,
    Producer,
    PublishSnapshot,
    ReadQuery,
    Retain,
    Retention,
    Snapshot,
    Trim,
    Write,
)
from everbrook.protocol.commands import Decision
from everbrook.protocol.frames import Frame
from everbrook.protocol.read import Page
from tests.kit.views import BYTES, JSON, NOW, TEXT, head_of


@pytest.mark.parametrize("media_type, json", [(JSON, True), (TEXT, False), (BYTES, False), (b"text/json", False)])
def test_only_application_json_is_kept_as_messages(media_type: bytes, json: object) -> None:
    """§9.1."""
    assert head_of(media_type).identity.json is json


def test_json_is_told_by_the_media_type_not_by_the_header_as_sent() -> None:
    """§9.1."""
    assert replace(head_of(JSON).identity, content_type=b"Application/JSON; charset=utf-8").json


@pytest.mark.parametrize("lifetime", [{"ttl_secs": 0}, {"ttl_secs": 60}, {"expires_at": 0}, {"expires_at": NOW}])
def test_a_stream_with_a_lifetime_is_mortal(lifetime: dict[str, int]) -> None:
    """§5.1: zero is a lifetime too."""
    assert replace(head_of().identity, **lifetime).mortal
    assert not head_of().identity.mortal


@pytest.mark.parametrize(
    "retention, ages",
    [(None, False), (Retention(max_bytes=1, max_messages=1), False), (Retention(max_age_secs=1), True)],
)
def test_a_stream_with_a_policy_loses_messages_by_itself(retention: Retention | None, ages: object) -> None:
    """Ours: by age though nothing is appended, by other bounds afterwards."""
    identity = replace(head_of().identity, retention=retention)

    assert (identity.ages, identity.mortal) == (ages, retention is not None)


def test_a_stream_begins_whole_and_a_fork_with_what_its_source_has() -> None:
    """002 §2.2."""
    plain, kept = head_of().identity, Kept(3, Snapshot(5, NOW))

    assert plain.first_kept == WHOLE == Kept(0, None)
    assert replace(plain, fork=Fork(b"source", 1, 7, kept=kept)).first_kept == kept


def test_a_stream_begins_at_zero_and_a_fork_where_it_diverges() -> None:
    """§8: one offset space."""
    plain = head_of().identity

    assert plain.first_own_offset == 0
    assert replace(plain, fork=Fork(b"source", 1, offset=7, anchor=5, sub_offset=2)).first_own_offset == 7


@pytest.mark.parametrize(
    "value",
    [
        head_of(),
        head_of().identity,
        Fork(b"source", 1, 0),
        Claim(b"p", 0, 0),
        Producer(0, 0, NOW),
        WHOLE,
        Retention(),
        Snapshot(0, NOW),
        PublishSnapshot(b"s", NOW, 0, TEXT),
        DeleteSnapshot(b"s", NOW, 0),
        Retain(b"s", NOW, 0),
        Trim(b"s", NOW),
        CreateBucket(b"agents", NOW, 1),
        DeleteBucket(b"agents", NOW),
        Cut(head_of()),
        Frame(0, 1, NOW, b"x"),
        Write(head_of()),
        Drop(head_of()),
        Create(b"s", NOW, 1),
        ForkFrom(b"s"),
        Append(b"s", NOW),
        Delete(b"s", NOW),
        Expire(b"s", NOW),
        Created(head_of()),
        Existing(head_of()),
        Appended(head_of()),
        Closed(head_of()),
        Duplicate(head_of(), Producer(0, 0, NOW)),
        Decision(Deleted()),
        Page(head_of(), 0, 0),
        ReadQuery(0),
        Event(b"data", b""),
    ],
)
def test_what_a_decision_saw_and_said_can_not_be_changed_behind_it(value: Struct) -> None:
    """Pending and durable state are references to the same values, and every decision replays."""
    with pytest.raises(AttributeError, match="immutable"):
        setattr(value, value.__struct_fields__[0], None)
