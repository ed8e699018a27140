"""The ledger of the kill test notices what a server may not do."""

import pytest

from soak.ledger import Log, PromiseBroken, message, parse, parse_json, verify

SENT = [message("a", number, 20) for number in range(4)]


def log_of(*acknowledged: int, sent: int = 4) -> Log:
    return Log("a", sent, {number: len(b"".join(SENT[: number + 1])) for number in acknowledged})


def check(log: Log, *messages: bytes) -> int:
    return verify(parse(b"".join(messages)), [log])


def test_what_was_acknowledged_and_is_there_once_is_right() -> None:
    assert check(log_of(0, 1, 2, 3), *SENT) == 4


def test_what_was_never_answered_may_be_there_or_not() -> None:
    assert check(log_of(0, 1), *SENT[:3]) == 3
    assert check(log_of(0, 1), *SENT[:2]) == 2


def test_a_lost_message_is_noticed() -> None:
    with pytest.raises(PromiseBroken, match="message 1 of a was acknowledged at 54 and is lost"):
        check(log_of(0, 1), SENT[0])


def test_a_repeated_message_is_noticed() -> None:
    with pytest.raises(PromiseBroken, match="is there twice"):
        check(log_of(0, 1), *SENT[:2], SENT[1])


def test_messages_out_of_order_are_noticed() -> None:
    with pytest.raises(PromiseBroken, match="message 2 of a follows its message 3"):
        check(log_of(0, 1), *SENT[:2], SENT[3], SENT[2])


def test_an_offset_that_was_taken_back_is_noticed() -> None:
    with pytest.raises(PromiseBroken, match="acknowledged at 54 and ends at 81"):
        verify(parse(SENT[0] + message("b", 0, 20) + SENT[1]), [log_of(0, 1), Log("b", 1)])


def test_a_message_that_nobody_sent_is_noticed() -> None:
    with pytest.raises(PromiseBroken, match="nobody has sent message 3"):
        check(log_of(0, sent=3), *SENT)


def test_a_byte_that_changed_is_noticed() -> None:
    with pytest.raises(PromiseBroken, match="is not as it was sent"):
        check(log_of(0), SENT[0][:-1] + b"?")


def test_half_a_message_is_noticed() -> None:
    with pytest.raises(PromiseBroken):
        check(log_of(0), SENT[0], SENT[1][:10])


def test_of_what_was_let_go_nothing_need_be_there() -> None:
    first = len(SENT[0])
    assert verify(parse(SENT[1] + SENT[2], first), [log_of(0, 1, 2, sent=3).since(first)]) == 2


def test_a_message_that_is_lost_behind_what_was_let_go_is_noticed() -> None:
    first = len(SENT[0])
    with pytest.raises(PromiseBroken, match="message 1 of a was acknowledged at 54 and is lost"):
        verify(parse(SENT[2], first + len(SENT[1])), [log_of(0, 1, 2, sent=3).since(first)])


def test_json_messages_are_told_apart_across_pages() -> None:
    pages = [b'[{"writer":"a","number":0}]', b'[{"writer":"a","number":1}]']

    assert verify(parse_json(pages), [Log("a", 2, {0: None, 1: None})]) == 2
