"""Forks and the end of streams that have them (§4.2, §5.4)."""

import pytest

from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire

ZERO = "0000000000000000_0000000000000000"


@pytest.fixture
def fork(wire: Wire, path: str) -> str:
    """A fork of `path` at its tail, five bytes in."""
    wire.create(path, body=b"hello")
    wire.create(f"{path}/fork", stream_forked_from=path)
    return f"{path}/fork"


def test_a_fork_begins_with_its_sources_bytes_and_goes_its_own_way(wire: Wire, path: str, fork: str) -> None:
    wire.append(path, b" source")
    wire.append(fork, b" fork")
    assert (wire.get(path).body, wire.get(fork).body) == (b"hello source", b"hello fork")


@pytest.mark.parametrize(
    "headers",
    [
        {"stream_fork_offset": f"{5:016d}"},
        {"stream_fork_sub_offset": "0"},
        {"stream_fork_offset": "-1", "stream_fork_sub_offset": "1"},
    ],
)
def test_fork_headers_need_a_source(wire: Wire, path: str, headers: dict[str, str]) -> None:
    assert wire.request("PUT", path, **headers).refusal == (400, "invalid_header")


@pytest.mark.parametrize(
    "offset",
    ["0000000000000003", "0000000000000006", "9999999999999999", "9999999999999999_9999999999999999", "now", ""],
)
def test_a_fork_branches_off_between_messages_only(wire: Wire, path: str, offset: str) -> None:
    wire.create(path, body=b"hello")
    answer = wire.request("PUT", f"{path}/fork", stream_forked_from=path, stream_fork_offset=offset)
    assert answer.refusal == (400, "invalid_offset")
    assert wire.request("DELETE", path).status == 204
    assert wire.request("HEAD", path).status == 404


@pytest.mark.parametrize("zero", [ZERO, "-1", f"{0:016d}"])
def test_a_fork_may_begin_at_the_very_beginning(wire: Wire, path: str, zero: str) -> None:
    wire.create(path, body=b"hello")
    wire.create(f"{path}/fork", stream_forked_from=path, stream_fork_offset=zero)
    assert wire.get(f"{path}/fork").body == b""


def test_a_sub_offset_makes_a_boundary_on_that_fork_alone(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    wire.create(f"{path}/fork", stream_forked_from=path, stream_fork_offset=ZERO, stream_fork_sub_offset="3")
    assert wire.get(f"{path}/fork").body == b"hel"
    assert wire.get(f"{path}/fork?offset={3:016d}").status == 200
    assert wire.get(f"{path}?offset={3:016d}").refusal == (400, "invalid_offset")


def test_a_fork_of_nothing_is_a_404(wire: Wire, path: str) -> None:
    answer = wire.request("PUT", f"{path}/fork", stream_forked_from=path)
    assert answer.refusal == (404, "source_not_found")


def test_another_content_type_than_the_sources_is_a_409(wire: Wire, path: str) -> None:
    wire.create(path)
    answer = wire.request("PUT", f"{path}/fork", content_type="text/html", stream_forked_from=path)
    assert answer.refusal == (409, "content_type_mismatch")


@pytest.mark.parametrize(
    "query", ["", "?offset=-1", "?offset=now", "?offset=-1&live=long-poll", "?offset=now&live=sse", "?offset=bad"]
)
def test_a_deleted_source_is_gone_in_every_read_mode(wire: Wire, path: str, fork: str, query: str) -> None:
    wire.request("DELETE", path)
    assert wire.get(path + query).refusal == (410, "stream_gone")


def test_a_deleted_source_is_gone_for_everything_else_too(wire: Wire, path: str, fork: str) -> None:
    wire.request("DELETE", path)
    assert wire.request("HEAD", path).status == 410
    assert wire.append(path, b"a").refusal == (410, "stream_gone")
    assert wire.request("DELETE", path).refusal == (410, "stream_gone")
    assert wire.request("PUT", path, content_type="text/plain").refusal == (409, "path_blocked")
    assert wire.request("PUT", f"{path}/2", stream_forked_from=path).refusal == (409, "source_deleted")


def test_a_fork_outlives_its_source_and_its_end_frees_the_path(wire: Wire, path: str, fork: str) -> None:
    wire.request("DELETE", path)
    assert wire.get(fork).body == b"hello"
    wire.request("DELETE", fork)
    assert wire.request("HEAD", path).status == 404
    wire.create(path, body=b"new")


def test_no_answer_shows_that_a_stream_is_a_fork(wire: Wire, fork: str) -> None:
    for method in ("GET", "HEAD"):
        assert not [name for name in wire.request(method, fork).headers if name.startswith("stream-fork")]


def test_a_fork_reads_like_any_stream_across_the_divergence(wire: Wire, path: str, fork: str) -> None:
    wire.append(fork, b"fork")
    answer = wire.get(f"{fork}?offset={5:016d}")
    assert (answer.body, answer.next_offset) == (b"fork", f"{9:016d}")
    follower = wire.follow(f"{fork}?offset=-1&live=sse")
    assert [follower.data(), follower.data()] == [b"hello", b"fork"]


def test_a_fork_that_is_too_deep_is_refused(start: Start, connect: Connect, path: str) -> None:
    """The chain that is there stays readable."""
    wire = connect(start(limits__max_fork_depth=1))
    wire.create(path, body=b"hello")
    wire.create(f"{path}/1", stream_forked_from=path)
    refused = wire.request("PUT", f"{path}/2", stream_forked_from=f"{path}/1")
    assert refused.refusal == (409, "fork_too_deep")
    assert wire.get(f"{path}/1").body == b"hello"
