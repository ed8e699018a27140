"""The commit thread does one step after the other, and ends when all of them are done."""

from threading import get_ident

import pytest

from everbrook.engine.commit_thread import CommitThread


def test_steps_are_done_in_their_order_by_one_other_thread_before_a_shutdown_returns() -> None:
    thread, done = CommitThread(), list[tuple[int, int]]()
    for number in range(100):
        thread.submit(lambda number: done.append((number, get_ident())), number)
    thread.shutdown()
    assert [number for number, _ in done] == list(range(100))
    assert len({ident for _, ident in done} | {get_ident()}) == 2


def test_nothing_is_taken_after_a_shutdown() -> None:
    thread = CommitThread()
    thread.shutdown()
    with pytest.raises(RuntimeError):
        thread.submit(get_ident)
