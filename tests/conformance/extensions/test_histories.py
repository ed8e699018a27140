"""Random histories of appends and snapshots: bootstrap is the snapshot and every message after it (002 §3)."""

from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from msgspec import Struct

from tests.conformance.extensions.multipart import Part, parse_bootstrap
from tests.conformance.extensions.streams import Namespace, Stream

few = settings(
    max_examples=12,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],  # to explain a failure takes minutes over HTTP
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # every example takes a stream of its own
)

Payload = st.binary(min_size=1, max_size=40) | st.sampled_from([b"\r\n--", b"--\r\n", b"\r", b"\n", b"\x00" * 5000])


class Publish(Struct, frozen=True):
    """Publish a snapshot: how far back from the tail, in messages, and what it holds."""

    back: int
    blob: bytes


Histories = st.lists(Payload | st.builds(Publish, st.integers(0, 3), st.binary(max_size=40)), max_size=12)


class History:
    """What a stream must hold: every message with the offset after it, and the latest snapshot."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.offsets = [stream.tail]
        self.messages: list[bytes] = []
        self.folded = 0
        self.snapshot: bytes | None = None

    def apply(self, step: bytes | Publish) -> None:
        if isinstance(step, bytes):
            self.offsets.append(self.stream.append(step))
            self.messages.append(step)
        else:
            self.folded = max(len(self.messages) - step.back, self.folded)
            self.stream.published(self.offsets[self.folded], step.blob)
            self.snapshot = step.blob

    @property
    def retained(self) -> list[bytes]:
        return self.messages[self.folded :]


@few
@given(steps=Histories)
def test_bootstrap_is_the_snapshot_and_every_message_after_it(
    namespace: Namespace, steps: list[bytes | Publish]
) -> None:
    """002 §3: a snapshot (if any) plus all retained updates after the snapshot point, in order."""
    history = History(namespace.fresh("application/octet-stream"))
    for step in steps:
        history.apply(step)
    answer = history.stream.bootstrap()
    offset = "-1" if history.snapshot is None else history.offsets[history.folded]
    assert (answer.headers["stream-snapshot-offset"], answer.next_offset) == (offset, history.offsets[-1])
    bodies = [history.snapshot or b"", *history.retained]
    assert parse_bootstrap(answer.headers["content-type"], answer.body) == [
        Part("application/octet-stream", body) for body in bodies
    ]


@few
@given(steps=Histories)
def test_what_remains_after_snapshots_keeps_its_bytes_and_offsets(
    namespace: Namespace, steps: list[bytes | Publish]
) -> None:
    """002 §2.2: for any offset less than snapshot_offset 410 Gone; the others are as they were."""
    history = History(namespace.fresh("application/octet-stream"))
    for step in steps:
        history.apply(step)
    stream, cut = history.stream, history.offsets[history.folded]
    for index, offset in enumerate(history.offsets):
        if offset < cut:
            assert stream.read(offset=offset).status == 410
        else:
            assert stream.read_all(offset) == b"".join(history.messages[index:])
