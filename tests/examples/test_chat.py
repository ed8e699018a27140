"""A person asks, reloads in the middle of the answer, and finds all of it there, once. In a real browser."""

import httpx2
import pytest
from playwright.sync_api import Page, expect

from examples.chat.app import STORY
from tests.examples.conftest import Chat

READERS = ("EventSource", "TypeScript client")
QUESTION = "Where does the brook go?"
ANSWER = STORY.format(question=QUESTION)


@pytest.fixture(params=READERS)
def read_with(request: pytest.FixtureRequest, page: Page, chat: str) -> str:
    """Open the page and choose the way that it reads."""
    page.goto(chat)
    if request.param != "EventSource":
        with page.expect_navigation():
            page.get_by_text(request.param).click()
    return str(request.param)


def ask(page: Page, question: str = QUESTION) -> None:
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")


def until_words_came(page: Page, count: int) -> None:
    page.wait_for_function("n => document.querySelector('.answer')?.textContent.split(' ').length > n", arg=count)


def answers(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".answer").all_text_contents()]


def until_done(page: Page, turns: int = 1) -> None:
    """Wait until so many turns are there, and none of them is under way any more."""
    expect(page.locator("article:not(.under-way)")).to_have_count(turns)


@pytest.mark.usefixtures("read_with")
def test_an_answer_appears_word_by_word(page: Page) -> None:
    ask(page)
    until_words_came(page, 3)
    assert len(answers(page)[0]) < len(ANSWER)
    until_done(page)
    assert answers(page) == [ANSWER]


@pytest.mark.usefixtures("read_with")
def test_a_reload_in_the_middle_loses_and_repeats_nothing(page: Page) -> None:
    ask(page)
    until_words_came(page, 10)
    page.reload()
    until_words_came(page, 15)
    page.reload()
    until_done(page)
    assert (page.locator(".question").all_text_contents(), answers(page)) == ([QUESTION], [ANSWER])


@pytest.mark.usefixtures("read_with")
def test_connections_that_break_in_the_middle_lose_and_repeat_nothing(page: Page, served_chat: Chat) -> None:
    ask(page)
    for words in (10, 30):
        until_words_came(page, words)
        served_chat.cut()
    until_done(page)
    assert answers(page) == [ANSWER]


@pytest.mark.usefixtures("read_with")
def test_a_second_page_sees_the_same_answer_while_it_is_made(page: Page) -> None:
    ask(page)
    until_words_came(page, 5)
    other = page.context.new_page()
    other.goto(page.url)
    until_done(other)
    assert answers(other) == [ANSWER]


@pytest.mark.usefixtures("read_with")
def test_a_stopped_answer_stays_as_it_was(page: Page) -> None:
    ask(page)
    until_words_came(page, 5)
    page.get_by_role("button", name="Stop").click()
    until_done(page)
    expect(page.locator(".note")).to_have_text("You stopped this answer.")
    stopped = answers(page)
    page.reload()
    until_done(page)
    expect(page.locator(".note")).to_be_visible()
    assert answers(page) == stopped


def test_stopping_an_answer_that_nobody_gives_does_nothing(chat: str) -> None:
    assert httpx2.post(f"{chat}/api/chats/nobody/nothing/stop").status_code == 204
    assert httpx2.get(f"{chat}/api/chats/nobody").json() == []


def test_a_turn_that_cannot_be_read_says_so(page: Page, chat: str) -> None:
    page.route("**/durable-streams.js", lambda route: route.fulfill(status=404))
    page.goto(chat)
    with page.expect_navigation():
        page.get_by_text("TypeScript client").click()
    ask(page)
    expect(page.locator(".note")).to_contain_text("Something went wrong")
    until_done(page)


def test_an_event_source_that_is_cut_says_what_it_has_had(page: Page, served_chat: Chat) -> None:
    page.goto(served_chat.url)
    ask(page)
    until_words_came(page, 10)
    with page.expect_request(lambda request: "/api/chats/" in request.url and request.method == "GET") as again:
        served_chat.cut()
    assert again.value.all_headers()["last-event-id"]


def test_turns_stay_in_order_over_a_reload(page: Page, chat: str) -> None:
    page.goto(chat)
    for turns, question in enumerate(("First?", "Second?"), 1):
        ask(page, question)
        until_done(page, turns)
    page.reload()
    expect(page.locator(".question")).to_have_text(["First?", "Second?"])
