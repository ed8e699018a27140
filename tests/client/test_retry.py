"""A request is made again if it certainly did not happen, or if it does no harm when it happens twice."""

from math import inf, nan

import pytest

from everbrook.client import ConnectionBroken, NotConnected, ResponseLate
from everbrook.client.errors import AppendUncertain, Unreachable
from everbrook.client.refusals import refusal_of
from everbrook.client.retry import Attempts, Failure, Retry
from everbrook.protocol.errors import ProtocolError, StreamDamaged, StreamNotFound, TooManyProducers, Unavailable


def attempts(retry: Retry | None = None, *, repeatable: bool = True, chance: float = 1.0) -> Attempts:
    return Attempts(retry or Retry(), "GET http://host/a", lambda: chance, repeatable=repeatable)


def answer(status: int, **headers: str) -> ProtocolError:
    return refusal_of(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"", "GET /")


@pytest.mark.parametrize(
    "given, name",
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": nan}, "max_attempts"),
        ({"first_delay_secs": 0}, "first_delay_secs"),
        ({"first_delay_secs": -1}, "first_delay_secs"),
        ({"first_delay_secs": nan}, "first_delay_secs"),
        ({"first_delay_secs": 20}, "max_delay_secs"),
        ({"max_delay_secs": inf}, "max_delay_secs"),
        ({"multiplier": 0.5}, "multiplier"),
        ({"multiplier": inf}, "multiplier"),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused_by_name(given: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Retry(**given)


def test_delays_double_up_to_a_bound() -> None:
    retry = Retry(first_delay_secs=1, max_delay_secs=6)
    assert [retry.delay_secs(failures, 1.0) for failures in range(1, 6)] == [1, 2, 4, 6, 6]


def test_chance_takes_up_to_half_of_a_delay() -> None:
    assert Retry(first_delay_secs=1).delay_secs(1, 0.0) == 0.5


def test_any_number_of_failures_has_a_delay() -> None:
    assert Retry(multiplier=1000, max_delay_secs=7).delay_secs(10**9, 1.0) == 7


@pytest.mark.parametrize("failure", [ConnectionBroken("cut"), ResponseLate("late"), answer(502), answer(504)])
def test_what_may_have_happened_is_not_repeated_where_that_would_harm(failure: Failure) -> None:
    with pytest.raises(AppendUncertain, match=r"^GET http://host/a: "):
        attempts(repeatable=False).delay_after(failure)


@pytest.mark.parametrize("failure", [NotConnected("refused"), *map(answer, (408, 425, 429, 500, 503))])
def test_what_did_not_happen_is_tried_again(failure: Failure) -> None:
    trying = attempts(repeatable=False)
    assert trying.delay_after(failure) == 0.1
    assert not trying.uncertain


def test_it_is_remembered_that_an_attempt_may_have_succeeded() -> None:
    trying = attempts()
    trying.delay_after(ConnectionBroken("cut"))
    trying.delay_after(answer(503))
    assert trying.uncertain


@pytest.mark.parametrize("failure", [answer(404), answer(409), StreamDamaged("bad"), TooManyProducers("full")])
def test_a_refusal_that_will_not_change_is_raised_at_once(failure: ProtocolError) -> None:
    with pytest.raises(type(failure)):
        attempts().delay_after(failure)


def test_the_last_failure_is_told_when_there_is_no_answer() -> None:
    trying = attempts(Retry(max_attempts=2))
    trying.delay_after(NotConnected("refused"))
    with pytest.raises(Unreachable, match="no response in 2 attempts, at last: cut"):
        trying.delay_after(ConnectionBroken("cut"))


def test_a_server_that_goes_on_refusing_is_quoted() -> None:
    with pytest.raises(Unavailable):
        attempts(Retry(max_attempts=1)).delay_after(answer(503))


def test_an_answer_begins_the_count_anew() -> None:
    trying = attempts(Retry(max_attempts=2))
    for _ in range(5):
        assert trying.delay_after(answer(503)) == 0.1
        trying.succeeded()


def test_whoever_was_answered_once_and_waits_for_news_never_gives_up() -> None:
    trying = attempts(Retry(max_attempts=2))
    trying.succeeded(patient=True)
    assert max(trying.delay_after(NotConnected("refused")) for _ in range(100)) == 10.0


@pytest.mark.parametrize(
    "headers, secs",
    [
        ({"Retry_After": "3"}, 3.0),
        ({"Retry_After": "9" * 400}, 120.0),
        ({"Retry_After": "Wed, 21 Oct 2026 07:28:05 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 5.0),
        ({"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT", "Date": "Wed, 21 Oct 2026 07:28:05 GMT"}, 0.1),
        ({"Retry_After": "Wed, 21 Oct 2026 07:28:05 GMT"}, 0.1),
        ({"Retry_After": "soon", "Date": "today"}, 0.1),
        ({"Retry_After": "-5"}, 0.1),
    ],
)
def test_a_server_may_say_when_to_come_back(headers: dict[str, str], secs: float) -> None:
    assert attempts().delay_after(answer(503, **headers)) == secs


def test_a_refusal_keeps_its_class_through_the_attempts() -> None:
    with pytest.raises(StreamNotFound, match="the server answered 404"):
        attempts().delay_after(answer(404))
