"""What has moved since a listing was read: `changed_since` with the listing's token."""

from typing import Any

import pytest

from tests.conformance.extensions.streams import Namespace, Stream

pytestmark = pytest.mark.extension("listing")


class Poller:
    """Reads only what has moved since it last looked."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._prefix = namespace.entry_id("")
        self.token = namespace.listed(prefix=self._prefix).json["token"]

    def page(self, **parameters: object) -> Any:  # noqa: ANN401 - a JSON object
        answer = self._namespace.listed(prefix=self._prefix, changed_since=self.token, **parameters)
        assert answer.status == 200, answer
        self.token = answer.json["token"]
        return answer.json

    def moved(self) -> list[str]:
        """The streams that moved, without the namespace in their ids."""
        return [entry["stream_id"].removeprefix(self._prefix) for entry in self.page()["streams"]]


def test_nothing_has_moved_at_first(namespace: Namespace) -> None:
    """Ours: only streams created, written, closed, cut or deleted since."""
    namespace.stream("s").create()
    poller = Poller(namespace)
    assert (poller.moved(), poller.moved()) == ([], [])


def test_a_created_stream_has_moved(namespace: Namespace) -> None:
    """Ours: streams created since."""
    namespace.stream("old").create()
    poller = Poller(namespace)
    namespace.stream("new").create()
    assert (poller.moved(), poller.moved()) == (["new"], [])


def test_a_written_stream_has_moved(namespace: Namespace) -> None:
    """Ours: streams written since."""
    streams = [namespace.stream(name).create() for name in "abc"]
    poller = Poller(namespace)
    tail = streams[1].append(b"words")
    [entry] = poller.page()["streams"]
    assert (entry["stream_id"], entry["tail_offset"]) == (namespace.entry_id("b"), int(tail))


def test_a_closed_stream_has_moved(namespace: Namespace) -> None:
    """Ours: streams closed since."""
    stream = namespace.stream("s").create()
    poller = Poller(namespace)
    stream.close()
    assert [entry["status"] for entry in poller.page()["streams"]] == ["Closed"]


def test_a_cut_stream_has_moved(namespace: Namespace) -> None:
    """Ours: streams cut since."""
    stream = namespace.fresh("text/plain", b"one")
    poller = Poller(namespace)
    stream.published(stream.tail)
    assert [entry["earliest_offset"] for entry in poller.page()["streams"]] == [3]


def ended(namespace: Namespace, stream: Stream) -> list[dict[str, object]]:
    """What will be told of the stream `s` once it is gone."""
    head = stream.head()
    told = {"tail_offset": int(head.next_offset), "incarnation": head.headers["stream-incarnation"]}
    return [{"stream_id": namespace.entry_id("s"), "status": "Deleted", **told}]


def test_of_a_deleted_stream_the_end_is_told(namespace: Namespace) -> None:
    """Ours: deleted ones have status "Deleted", stream_id, tail_offset and incarnation."""
    stream = namespace.stream("s").create()
    poller = Poller(namespace)
    stream.append(b"words")
    expected = ended(namespace, stream)
    stream.delete()
    assert poller.page()["streams"] == expected


def test_of_a_deleted_stream_with_forks_the_end_is_told(namespace: Namespace) -> None:
    """Ours: deleted ones have status "Deleted", stream_id, tail_offset and incarnation."""
    stream = namespace.stream("s").create("text/plain", b"one")
    namespace.stream("fork").create(stream_forked_from=stream.path)
    poller = Poller(namespace)
    expected = ended(namespace, stream)
    stream.delete()
    assert poller.page()["streams"] == expected


def test_of_a_stream_that_is_made_again_the_ends_of_those_before_are_told(namespace: Namespace) -> None:
    """Ours: each deletion by itself, also where the name exists again."""
    stream = namespace.stream("s").create("text/plain", b"one")
    poller = Poller(namespace)
    expected = ended(namespace, stream)
    stream.delete()
    stream.create("text/plain", b"three")
    expected += ended(namespace, stream)
    stream.delete()
    stream.create()
    *ends, there = poller.page()["streams"]
    assert ends == expected
    assert (there["status"], there["stream_id"]) == ("Open", namespace.entry_id("s"))


def test_streams_come_in_the_order_in_which_they_moved(namespace: Namespace) -> None:
    """Ours: sorted by when they moved; each once."""
    streams = {name: namespace.stream(name).create() for name in "abc"}
    poller = Poller(namespace)
    for name in "cabc":
        streams[name].append(b"x")
    assert poller.moved() == ["a", "b", "c"]


def test_pages_of_what_moved_lead_on_by_their_tokens(namespace: Namespace) -> None:
    """Ours: has_more with the token of the last entry: ask again with it."""
    poller = Poller(namespace)
    for name in "edcba":
        namespace.stream(name).create()
    pages = [poller.page(limit=2) for _ in range(3)]
    assert [page["has_more"] for page in pages] == [True, True, False]
    found = [entry["stream_id"] for page in pages for entry in page["streams"]]
    assert found == [namespace.entry_id(name) for name in "edcba"]
    assert poller.moved() == []


def test_a_token_goes_on_from_a_listing_that_was_read_in_pages(namespace: Namespace) -> None:
    """Ours: every listing answer has a token."""
    for name in "abc":
        namespace.stream(name).create()
    first = namespace.listed(prefix=namespace.entry_id(""), limit=1).json
    namespace.stream("a").append(b"moved behind the reader")
    changed = namespace.listed(prefix=namespace.entry_id(""), changed_since=first["token"]).json
    assert [entry["stream_id"] for entry in changed["streams"]] == [namespace.entry_id("a")]


def test_the_control_listing_of_a_bucket_knows_it_too(bucket: Namespace) -> None:
    """Ours: also /ds/{bucket}/__ds/streams."""
    token = bucket.client.get(f"{bucket.path}/__ds/streams").json["token"]
    bucket.stream("s").create()
    page = bucket.client.get(f"{bucket.path}/__ds/streams?changed_since={token}").json
    assert [entry["stream_id"] for entry in page["streams"]] == ["s"]


def test_a_token_and_a_cursor_together_are_400(namespace: Namespace) -> None:
    """Ours: not together with `after`."""
    token = namespace.listed(limit=1).json["token"]
    assert namespace.listed(changed_since=token, after="a").status == 400


def test_another_bucket_does_not_move_this_one(bucket: Namespace, missing: Namespace) -> None:
    """Ours: what moved in the bucket that is listed."""
    token = bucket.listed().json["token"]
    missing.make().stream("s").create()
    assert bucket.listed(changed_since=token).json["streams"] == []
