"""Reads that resume: whatever breaks and in whatever order, nothing is skipped and nothing comes twice."""

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from everbrook.client import Mode
from everbrook.client.content import Codec
from everbrook.client.errors import InvalidAnswer, StreamRewound, Unsupported
from everbrook.client.page import Page, page_of
from everbrook.client.read_state import Ask, EventPages, Live, ReadState
from everbrook.client.timeouts import DEFAULT_TUNING
from everbrook.protocol import KEEP_ALIVE, Control, Event, encode_base64, encode_event

EXACT = {"Stream-Extensions": "bounded-reads"}
JSON = {"Content-Type": "application/json"} | EXACT


def reading(offset: str = "-1", *, until: str | None = None, mode: Mode | None = None, **start: str) -> ReadState:
    return ReadState(offset, start=start, until=until, mode=mode, codec=Codec())


def page(
    offset: str,
    next_offset: str,
    data: bytes = b"[1]",
    *,
    exact: bool = True,
    up_to_date: bool = False,
    closed: bool = False,
) -> Page:
    return Page(offset, next_offset, data, "application/json", up_to_date, closed, exact=exact)


def event(data: bytes, control: Control) -> bytes:
    begun = encode_event(Event(b"data", data)) if data else b""
    return begun + encode_event(Event(b"control", msgspec.json.encode(control)))


class AnyReading(RuleBasedStateMachine):
    """A follower of a stream that others append to, over a connection that breaks anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[bytes] = []
        self.closed = False
        self.reading = reading(mode="auto")
        self.values: list[int] = []

    def offset(self, count: int) -> str:
        return f"{sum(len(message) + 1 for message in self.stored[:count]):016d}"

    def count_at(self, offset: str) -> int:
        """How many messages lie before an offset, which must be one that the server gave."""
        return 0 if offset == "-1" else [self.offset(count) for count in range(len(self.stored) + 1)].index(offset)

    @precondition(lambda self: not self.closed)
    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.stored += [b"%d" % number for number in range(len(self.stored), len(self.stored) + count)]

    @rule()
    def close(self) -> None:
        self.closed = True

    @precondition(lambda self: not self.reading.over)
    @rule(amount=st.integers(1, 4), cut=st.integers(0, 200), broken=st.booleans(), steps=st.integers(1, 30))
    def ask(self, amount: int, cut: int, broken: bool, steps: int) -> None:  # noqa: FBT001
        ask = self.reading.ask()
        if ask.live is Live.SSE:
            self.receive(self.events(self.count_at(ask.query["offset"]), amount), cut if broken else 10**9, steps)
        elif not broken:
            self.take(self.answer(ask, amount))

    def answer(self, ask: Ask, amount: int) -> Page:
        begin = self.count_at(ask.query["offset"])
        end = min(begin + amount, len(self.stored))
        headers = JSON | {"Stream-Next-Offset": self.offset(end)}
        headers |= {"Stream-Up-To-Date": "true"} if end == len(self.stored) else {}
        headers |= {"Stream-Closed": "true"} if end == len(self.stored) and self.closed else {}
        data = b"[%b]" % b",".join(self.stored[begin:end])
        return page_of(ask.query["offset"], 200, headers, data, Codec())

    def events(self, begin: int, amount: int) -> bytes:
        """What the server sends over one connection: a page, then a page of what is left."""
        sent = KEEP_ALIVE
        for end in (min(begin + amount, len(self.stored)), len(self.stored)):
            last = end == len(self.stored)
            control = Control(self.offset(end), "c", up_to_date=last, stream_closed=last and self.closed)
            data = b",".join(self.stored[begin:end])
            sent += event(b"[%b]" % data if data else b"", control)
            begin = end
        return sent

    def receive(self, sent: bytes, cut: int, steps: int) -> None:
        events = self.reading.events(EXACT)
        received = sent[:cut]
        for at in range(0, len(received), steps):
            for found in events.feed(received[at : at + steps]):
                if not self.reading.over:
                    self.take(found)
        self.reading.ended(events.count)

    def take(self, found: Page) -> None:
        self.reading.took(found)
        self.values += found.values

    @rule()
    def hold_back_events(self) -> None:
        self.reading.fall_back()

    @invariant()
    def nothing_is_lost_or_repeated(self) -> None:
        assert self.values == list(range(len(self.values)))
        assert len(self.values) == self.count_at(self.reading.offset)

    def teardown(self) -> None:
        while not self.reading.over and not (self.reading.up_to_date and len(self.values) == len(self.stored)):
            self.ask(amount=3, cut=0, broken=False, steps=7)
        assert len(self.values) == len(self.stored)


TestAnyReading = AnyReading.TestCase
TestAnyReading.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=5), st.integers(0, 400), st.booleans())
def test_events_that_are_cut_anywhere_give_whole_pages_only(pieces: list[bytes], cut: int, base64: bool) -> None:  # noqa: FBT001
    headers = {"Stream-SSE-Data-Encoding": "base64"} if base64 else {}
    texts = pieces if base64 else [piece.hex().encode() for piece in pieces]
    sent = b"".join(
        event(encode_base64(text) if base64 else text, Control(f"{number:04d}")) for number, text in enumerate(texts, 1)
    )
    pages = EventPages("0000", "text/plain", headers, Codec()).feed(sent[:cut])
    assert [found.data for found in pages] == texts[: len(pages)]
    assert [found.offset for found in pages] == [f"{number:04d}" for number in range(len(pages))]


@pytest.mark.parametrize("up_to_date", [False, True])
@pytest.mark.parametrize("closed", [False, True])
def test_a_control_event_says_where_its_page_ends(up_to_date: bool, closed: bool) -> None:  # noqa: FBT001
    control = Control("0007", "c", up_to_date=up_to_date, stream_closed=closed)
    (found,) = EventPages("0005", "text/plain", {}, Codec()).feed(event(b"ab", control))
    assert (found.offset, found.next_offset, found.cursor) == ("0005", "0007", "c")
    assert (found.up_to_date, found.closed) == (up_to_date or closed, closed)


def test_several_arrays_before_one_control_event_are_one_array() -> None:
    sent = b"".join(encode_event(Event(b"data", data)) for data in (b"[1, 2]", b"[]", b" [3] "))
    (found,) = EventPages("0", "application/json; x=y", {}, Codec()).feed(sent + event(b"", Control("9")))
    assert found.values == [1, 2, 3]


@pytest.mark.parametrize("sent", [event(b"%", Control("1")), encode_event(Event(b"control", b"{}"))])
def test_an_event_that_makes_no_sense_is_an_invalid_answer(sent: bytes) -> None:
    with pytest.raises(InvalidAnswer, match="event of the stream is not"):
        EventPages("0", "image/png", {"Stream-SSE-Data-Encoding": "base64"}, Codec()).feed(sent)


def test_other_events_are_passed_over() -> None:
    assert EventPages("0", "text/plain", {}, Codec()).feed(encode_event(Event(b"message", b"hello"))) == []


def test_a_read_asks_until_it_is_up_to_date() -> None:
    reads = reading("0005")
    assert reads.ask() == Ask({"offset": "0005"}, None)
    reads.took(page("0005", "0007"))
    assert not reads.over
    assert reads.ask() == Ask({"offset": "0007"}, None)
    reads.took(page("0007", "0009", up_to_date=True))
    assert reads.over


def test_a_read_up_to_an_offset_ends_there() -> None:
    reads = reading("0005", until="0009")
    assert reads.ask().query == {"offset": "0005", "until": "0009"}
    reads.took(page("0005", "0009"))
    assert reads.over


def test_a_read_of_nothing_still_asks_once() -> None:
    assert not reading("0005", until="0005").over


def test_a_beginning_of_its_own_is_asked_for_once() -> None:
    reads = reading(mode="auto", last="2", skip="1")
    assert reads.ask().query == {"last": "2", "skip": "1"}
    reads.took(page("0003", "0005"))
    assert reads.ask().query == {"offset": "0005"}


def test_an_offset_goes_with_skip() -> None:
    assert reading("0004", skip="1").ask().query == {"offset": "0004", "skip": "1"}


@pytest.mark.parametrize("reads", [reading(last="2"), reading(until="0009")])
def test_a_server_that_ignores_where_to_begin_or_end_is_noticed(reads: ReadState) -> None:
    with pytest.raises(Unsupported, match="the server ignored `until`, `last`, `at` or `skip`"):
        reads.took(page("0000", "0001", exact=False))


def test_a_stream_that_ends_before_what_was_read_of_it_is_noticed() -> None:
    reads = reading("0009")
    with pytest.raises(StreamRewound, match="ends at offset 0005, before 0009"):
        reads.took(page("0009", "0005", b"[]", up_to_date=True))
    assert reads.offset == "0009"


def test_a_page_that_leads_nowhere_is_the_last() -> None:
    reads = reading("0005")
    reads.took(page("0005", "0005", b"[]"))
    assert reads.over


def follower(mode: Mode = "auto") -> ReadState:
    """One that has caught up."""
    follows = reading("0001", mode=mode)
    follows.took(page("0001", "0002", up_to_date=True))
    return follows


def test_a_follower_waits_for_events_and_sends_the_cursor_back() -> None:
    follows = reading("0001", mode="auto")
    follows.took(Page("0001", "0002", b"[]", "application/json", up_to_date=True, cursor="7"))
    ask = follows.ask()
    assert (ask.live, ask.query) == (Live.SSE, {"offset": "0002", "cursor": "7", "live": "sse"})


def test_a_follower_is_over_when_the_stream_is_closed() -> None:
    follows = follower()
    follows.took(page("0002", "0002", b"[]", closed=True))
    assert follows.over


def test_events_that_never_come_are_waited_for_by_long_polls() -> None:
    follows = follower()
    for _ in range(DEFAULT_TUNING.max_fruitless):
        assert follows.ask().live is Live.SSE
        follows.ended(0)
    assert follows.ask().live is Live.LONG_POLL


def test_a_connection_with_events_makes_up_for_those_without() -> None:
    follows = follower()
    for events in (0, 0, 1, 0, 0):
        follows.ended(events)
    assert follows.ask().live is Live.SSE


def test_whoever_insists_on_events_gets_no_long_polls() -> None:
    follows = follower("sse")
    assert not follows.fall_back()
    assert follows.ask().live is Live.SSE


def test_the_first_event_is_expected_soon_and_later_ones_are_not() -> None:
    follows = follower()
    first = follows.ask().timeout_secs or 0
    follows.ended(1)
    assert (follows.ask().timeout_secs or 0) > first


@pytest.mark.parametrize("mode, live", [("auto", Live.LONG_POLL), ("sse", Live.SSE), ("long-poll", Live.LONG_POLL)])
def test_a_server_that_does_not_wait_is_noticed(mode: Mode, live: Live) -> None:
    follows = follower(mode)
    for times in range(1, DEFAULT_TUNING.max_fruitless + 1):
        follows.waited(follows.ask(), 0.001, news=False)
        assert follows.hasty == times
    assert follows.ask().live is live


@pytest.mark.parametrize("secs, news", [(30.0, False), (0.001, True)])
def test_a_server_that_waits_or_has_news_is_asked_again_at_once(secs: float, news: bool) -> None:  # noqa: FBT001
    follows = follower()
    follows.waited(follows.ask(), 0.001, news=False)
    follows.waited(follows.ask(), secs, news=news)
    assert follows.hasty == 0


def test_catching_up_is_never_hasty() -> None:
    reads = reading("0001", mode="auto")
    reads.waited(reads.ask(), 0.001, news=False)
    assert reads.hasty == 0


def test_a_follower_that_moves_catches_up_from_there() -> None:
    follows = follower()
    follows.move("0042")
    assert follows.ask() == Ask({"offset": "0042"}, None)


def test_a_page_that_leads_nowhere_is_not_read_for_ever() -> None:
    read = reading("0000000000000002")
    with pytest.raises(InvalidAnswer, match="ends at 0000000000000002, where it began"):
        read.took(page("0000000000000002", "0000000000000002"))


def test_a_page_of_another_incarnation_is_not_taken() -> None:
    """A cache or an old server may answer without comparing."""
    stands = reading("-1")
    stands.took(replace(page("-1", "0000000000000003"), incarnation="a"))
    assert stands.ask().headers == {"Stream-Incarnation": "a"}
    with pytest.raises(StreamRewound, match="has incarnation b now"):
        stands.took(replace(page("0000000000000003", "0000000000000005"), incarnation="b"))


def test_an_offset_is_kept_with_its_incarnation() -> None:
    stands, again = reading("-1"), reading("-1")
    assert stands.kept("0000000000000003") == "0000000000000003"
    stands.took(replace(page("-1", "0000000000000003"), incarnation="a"))
    again.resume(stands.kept("0000000000000003"))
    assert (again.offset, again.incarnation) == ("0000000000000003", "a")


def test_events_are_of_the_incarnation_that_their_answer_tells() -> None:
    events = EventPages("-1", "application/json", {"Stream-Incarnation": "a"}, Codec())
    (found,) = events.feed(event(b"[1]", Control("0000000000000003", up_to_date=True)))
    assert found.incarnation == "a"
