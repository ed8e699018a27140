"""What events mean for a visit: facts, each at most once."""

from typing import Any

import msgspec
from hypothesis import given, strategies as st

from examples.analytics.visits import RECENT_MESSAGES, SILENCE_MS, Event, Fact, Visit, follow

TYPES = st.sampled_from(["message", "presence", "typing", "reaction", "chunk", "cursor"])
EVENTS = st.builds(
    Event,
    offset=st.just("0"),
    type=TYPES,
    key=st.sampled_from(["user:ada", "user:bob", "msg:1", "msg:2", "msg:3"]),
    gone=st.booleans(),
    user=st.sampled_from(["ada", "bob", None]),
    role=st.sampled_from(["user", "assistant", "bot", None]),
    at_ms=st.integers(0, 3 * SILENCE_MS),
)


def event(type_: str, key: str, at_ms: int = 0, **fields: Any) -> Event:  # noqa: ANN401 - those of an event
    given_ = {"gone": False, "user": None, "role": None} | fields
    return Event(offset=f"{at_ms:016d}", type=type_, key=key, at_ms=at_ms, **given_)


def question(key: str, at_ms: int) -> Event:
    return event("message", key, at_ms, role="user", user="ada")


def answer(key: str, at_ms: int) -> Event:
    return event("message", key, at_ms, role="assistant", user="assistant")


def facts_of(*events: Event) -> list[Fact]:
    return follow(None, events)[1]


def test_an_answer_tells_how_long_the_question_has_waited() -> None:
    assert facts_of(question("1", 1_000), answer("2", 3_500))[1].response_ms == 2_500


def test_of_several_questions_the_first_is_the_one_that_has_waited() -> None:
    assert facts_of(question("1", 1_000), question("2", 2_000), answer("3", 3_000))[2].response_ms == 2_000


def test_an_answer_that_nobody_asked_for_has_no_response_time() -> None:
    facts = facts_of(answer("1", 0), question("2", 10), answer("3", 20), answer("4", 30))
    assert [fact.response_ms for fact in facts] == [None, None, 10, None]


def test_clocks_that_disagree_give_no_negative_time() -> None:
    assert facts_of(question("1", 2_000), answer("2", 1_000))[1].response_ms == 0


def test_a_message_that_is_edited_is_counted_once() -> None:
    assert [fact.kind for fact in facts_of(question("1", 0), question("1", 5), answer("2", 9))] == [
        "question",
        "answer",
    ]


def test_each_step_of_the_funnel_is_taken_once() -> None:
    joins = event("presence", "user:ada", user="ada")
    turns = [question("1", 1), answer("2", 2), question("3", 3), answer("4", 4), question("5", 5)]
    steps = [fact.steps for fact in facts_of(joins, joins, *turns)]
    assert steps == [("joined",), (), ("asked",), ("answered",), ("continued",), (), ()]


def test_who_asks_without_a_sign_before_has_joined() -> None:
    assert facts_of(question("1", 0))[0].steps == ("joined", "asked")


def test_a_visit_is_closed_when_the_last_one_leaves() -> None:
    joins = [event("presence", f"user:{name}", user=name) for name in ("ada", "bob")]
    leaves = [event("presence", f"user:{name}", gone=True, user=name) for name in ("ada", "bob", "bob")]
    assert [fact.kind for fact in facts_of(*joins, *leaves)] == ["seen", "seen", "closed"]


def test_events_of_other_types_and_roles_mean_nothing() -> None:
    others = [event("cursor", "user:ada", user="ada"), event("chunk", "1"), event("message", "2", role="bot")]
    assert facts_of(*others) == []


def test_after_a_day_of_silence_a_new_visit_begins() -> None:
    later_ms = SILENCE_MS + 1
    facts = facts_of(question("1", 0), question("2", later_ms))
    assert [(fact.began_ms, fact.steps) for fact in facts] == [
        (0, ("joined", "asked")),
        (later_ms, ("joined", "asked")),
    ]


def test_a_long_visit_stays_small() -> None:
    visit, _ = follow(None, (question(f"msg:{number}", number) for number in range(10_000)))
    assert visit is not None
    assert len(visit.messages) == RECENT_MESSAGES


@given(st.lists(EVENTS, max_size=30), st.integers(0, 30))
def test_it_does_not_matter_where_a_batch_ends(events: list[Event], end: int) -> None:
    visit, before = follow(None, events[:end])
    kept = msgspec.json.decode(msgspec.json.encode(visit), type=Visit | None)
    assert before + follow(kept, events[end:])[1] == facts_of(*events)
