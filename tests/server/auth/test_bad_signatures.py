"""BadSignatures: who sends bad signatures waits, who does not is not made to."""

import pytest

from everbrook.protocol.errors import TooManyRequests
from everbrook.server.auth.tokens import BadSignatures
from everbrook.server.tuning import GuessTuning

TUNING = GuessTuning(per_sec=4.0, all_per_sec=32.0, burst_secs=2.0)


class Watch:
    """A clock that a test moves on."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _guess(guesses: BadSignatures, whose: str, times: float) -> None:
    for _ in range(int(times)):
        guesses.note(whose)


def test_a_few_mistakes_are_no_guesses() -> None:
    guesses = BadSignatures(TUNING, Watch())
    _guess(guesses, "alice", TUNING.per_sec * TUNING.burst_secs)
    guesses.require_few("alice")


def test_who_guesses_waits_and_may_then_try_again() -> None:
    watch = Watch()
    guesses = BadSignatures(TUNING, watch)
    _guess(guesses, "mallory", TUNING.per_sec * (TUNING.burst_secs + 3))
    with pytest.raises(TooManyRequests) as refused:
        guesses.require_few("mallory")
    assert dict(refused.value.headers)[b"Retry-After"] == b"3"
    guesses.require_few("alice")
    watch.now += 3
    guesses.require_few("mallory")


def test_when_many_guess_only_they_wait() -> None:
    guesses = BadSignatures(TUNING, Watch())
    for number in range(int(TUNING.all_per_sec * (TUNING.burst_secs + 1))):
        guesses.note(f"mallory-{number}")
    with pytest.raises(TooManyRequests):
        guesses.require_few("mallory-7")
    guesses.require_few("alice")
