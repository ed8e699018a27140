"""Chaos between producer, server and followers, for a few seconds; and clients with a bug, which it must find out."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from everbrook.client._async.transport import AsyncTransport
from everbrook.client._async.wire import AsyncResponse
from everbrook.client.content import Codec
from everbrook.client.page import Page
from everbrook.client.read_state import Ask, EventPages, ReadState
from everbrook.protocol import Decoder
from everbrook.protocol.errors import StreamClosed
from soak.chaos import require_same, soak_chaos
from soak.ledger import PromiseBroken

SECS = 4.0
ENOUGH_MESSAGES = 500
"""As many as a quiet machine appends in that time: with fewer, no fault may strike where the bug is."""


def test_every_follower_ends_with_what_was_appended(tmp_path: Path) -> None:
    outlasted = soak_chaos("acid", tmp_path / "store", secs=SECS, seed=1, kills=1, least_messages=200)
    assert (outlasted.kills, sum(outlasted.faults.values()) > 50) == (1, True)


@pytest.fixture
def reads_on_at_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that forgets where it was when it asks again."""
    ask = ReadState.ask

    def forgetful(reading: ReadState) -> Ask:
        asked = ask(reading)
        return Ask(asked.query | {"offset": "now"}, asked.live, asked.timeout_secs) if asked.live else asked

    monkeypatch.setattr(ReadState, "ask", forgetful)


class EagerPages(EventPages):
    """Gives data as it comes, and a page without any when it is told where the data ends."""

    def __init__(self, offset: str, content_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(offset, content_type, headers, Codec())
        self.offset = offset
        self.content_type = content_type
        self.decoder = Decoder()

    def feed(self, received: bytes) -> list[Page]:
        pages: list[Page] = []
        told = iter(super().feed(received))
        for event in self.decoder.feed(received):
            if event.type == b"data":
                pages.append(Page(self.offset, self.offset, event.data, self.content_type, up_to_date=True))
            elif event.type == b"control":
                pages.append(replace(next(told), data=b""))
                self.offset = pages[-1].next_offset
        return pages


@pytest.fixture
def hands_out_before_the_control_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that does not wait to be told where the data ends: what is cut there comes again."""
    monkeypatch.setattr(
        ReadState, "events", lambda reading, headers: EagerPages(reading.offset, reading.content_type, headers)
    )


@pytest.fixture
def repeats_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that sends again what was not answered, and does not say that it is the same."""
    ask = AsyncTransport.ask
    numbers = count()

    async def careless(transport: AsyncTransport, method: str, url: str, **options: Any) -> AsyncResponse:  # noqa: ANN401
        headers = options.get("headers") or {}
        if "Producer-Id" in headers:
            name = "last" if "Stream-Closed" in headers else f"new-{next(numbers)}"
            options["headers"] = headers | {"Producer-Id": name, "Producer-Seq": "0"}
        return await ask(transport, method, url, **options)

    monkeypatch.setattr(AsyncTransport, "ask", careless)


@pytest.mark.parametrize(
    "bug, finding",
    [
        ("reads_on_at_the_tail", PromiseBroken),
        ("hands_out_before_the_control_event", PromiseBroken),
        # Without its numbers the close may overtake what it has to follow: that is a finding too.
        ("repeats_under_another_name", (PromiseBroken, StreamClosed)),
    ],
)
def test_a_client_with_a_bug_is_found_out(
    bug: str, finding: type[Exception] | tuple[type[Exception], ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(bug)
    with pytest.raises(finding):
        soak_chaos("memory", tmp_path / "store", secs=SECS, seed=1, least_messages=ENOUGH_MESSAGES)


@pytest.mark.parametrize("got", [[0, 1], [0, 1, 1, 2], [0, 2, 1], [0, 1, 2, 3], [1, 2]], ids=str)
def test_what_is_lost_repeated_or_out_of_order_is_told(got: list[int]) -> None:
    with pytest.raises(PromiseBroken, match="somebody has"):
        require_same("somebody", got, 3)
