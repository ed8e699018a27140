"""Whatever breaks between browser, application and streams, and however often: every word once, and one answer."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from tests.client.agents.web.application import WORDS, Model, serving_application
from tests.client.agents.web.events import behind, read_all, reading, words_of
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import AnswerLost, CutAfter, Fault, NeverSent, Reply, Sound
from tests.kit.faults.proxy import Plan, Proxy

REQUESTS_AT_ONCE = 12


def rough(seed: int) -> Plan:
    """A way to the streams on which two requests of five go wrong."""
    chance = random.Random(seed)
    faults: list[Fault] = [NeverSent(), AnswerLost(), CutAfter(20), Reply(503)]

    def plan(_request: Request) -> Fault:
        return chance.choice(faults) if chance.random() < 0.4 else Sound()

    return plan


@pytest.fixture(params=range(4))
def rough_chat(request: pytest.FixtureRequest, model: Model, server: str) -> Iterator[str]:
    """The URL of an answer, of an application whose way to its streams is rough."""
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(int(server.rpartition(":")[2]), rough(request.param)))
        origin = stack.enter_context(serving_application(model, proxy.origin))
        yield f"{origin}/chat/{uuid4()}"


def test_a_rough_way_to_the_streams_goes_unnoticed(rough_chat: str, model: Model) -> None:
    assert words_of(read_all("POST", rough_chat)) == WORDS
    assert model.asked == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_who_comes_and_goes_gets_every_word_once(chat: str, seed: int) -> None:
    chance = random.Random(seed)
    got: list[Any] = []
    with reading("POST", chat):
        pass
    while not got or got[-1].type != b"end":
        with reading("GET", chat, headers=behind(got[-1]) if got else {}) as (_, events):
            got += [event for event, _ in zip(events, range(chance.randrange(1, 6)), strict=False)]
    assert words_of(got) == WORDS


def test_many_who_ask_at_once_get_one_answer(chat: str, model: Model) -> None:
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        answers = list(threads.map(lambda _: words_of(read_all("POST", chat)), range(REQUESTS_AT_ONCE)))
    assert answers == [WORDS] * REQUESTS_AT_ONCE
    assert model.asked == 1


def test_two_processes_that_are_asked_at_once_make_one_answer(server: str) -> None:
    models = [Model(), Model()]
    name = uuid4()
    with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        origins = [stack.enter_context(serving_application(model, server)) for model in models]
        answers = list(threads.map(lambda origin: words_of(read_all("POST", f"{origin}/chat/{name}")), origins))
    assert answers == [WORDS, WORDS]
    assert sum(model.asked for model in models) == 1
