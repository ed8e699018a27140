"""Whatever is in a stream, or in its name, is text on the page."""

import json

import pytest
from playwright.sync_api import Page, expect

from everbrook import Client

ATTACK = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'><svg onload='window.owned = 1'>"


def show(page: Page, ui: str, name: str, tab: str = "log") -> None:
    page.goto(f"{ui}#/stream/v1/stream/{name}?tab={tab}")


def owned(page: Page) -> bool:
    return bool(page.evaluate("'owned' in window"))


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "text/html"])
def test_markup_in_a_message_is_shown_and_never_run(page: Page, ui: str, client: Client, content_type: str) -> None:
    name = f"hostile/{content_type.replace('/', '-')}"
    stream = client.stream(name, content_type=content_type)
    stream.create()
    stream.append({"m": ATTACK} if content_type == "application/json" else ATTACK)
    show(page, ui, name)
    page.locator(".message").click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("<script>")
    assert not owned(page)


def test_markup_in_rows_and_keys_of_a_table_is_shown(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/table")
    stream.create()
    stream.append({"type": ATTACK, "key": ATTACK, "value": {ATTACK: ATTACK}, "headers": {"operation": "insert"}})
    show(page, ui, "hostile/table", "table")
    expect(page.get_by_role("listbox", name="rows")).to_contain_text("<script>")
    assert not owned(page)


def test_markup_in_the_name_of_a_stream_is_shown(page: Page, ui: str, client: Client) -> None:
    client.stream("<b onmouseover=window.owned=1>bold").create()
    page.goto(ui)
    page.get_by_role("option", name="<b").click()
    expect(page.get_by_role("heading", name="<b onmouseover")).to_be_visible()
    assert not owned(page)


def test_characters_that_turn_text_around_are_shown_by_name(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/bidi", content_type="text/plain")
    stream.create()
    stream.append("safe\u202egnp.exe\u2066 \x1b[31m")
    show(page, ui, "hostile/bidi")
    line = page.locator(".message")
    expect(line).to_contain_text("U+202E")
    expect(line).to_contain_text("U+001B")
    assert "\u202e" not in (line.text_content() or "")


def test_a_line_of_megabytes_stays_a_line(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/long", content_type="text/plain")
    stream.create()
    stream.append("x" * 5_000_000)
    show(page, ui, "hostile/long")
    expect(page.locator(".message")).to_contain_text("…")
    assert len(page.locator(".message").text_content() or "") < 2000
    page.locator(".message").click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("the first 1.0 MB are shown")


def test_bytes_that_are_no_utf_8_are_shown_as_bytes(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/latin", content_type="text/plain")
    stream.create()
    stream.append(b"caf\xe9 \xff\xfe")
    show(page, ui, "hostile/latin")
    page.locator(".message").click()
    detail = page.get_by_label("Message", exact=True)
    expect(detail).to_contain_text("not UTF-8")
    expect(detail).to_contain_text("63 61 66 e9")


def test_deep_json_is_laid_out_without_end(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/deep")
    stream.create()
    stream.append(json.loads("[" * 400 + "1" + "]" * 400))
    show(page, ui, "hostile/deep")
    page.locator(".message").click()
    page.get_by_role("list", name="document").press("End")
    expect(page.get_by_label("Message", exact=True)).to_contain_text("]")


def test_a_wide_document_has_no_more_lines_than_fit(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/wide")
    stream.create()
    stream.append({f"key {number}": number for number in range(20_000)})
    show(page, ui, "hostile/wide")
    page.locator(".message").click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("key 3")
    assert page.locator(".jline").count() < 200


NAMES = ["with space", "100%", "a#b?c&d=e", "ünï/cödé", "b/\uffffx", "\uffffq", "quo'te\"s", "tail\u202egnp.exe"]


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_of_any_name_can_be_opened(page: Page, ui: str, client: Client, name: str) -> None:
    stream = client.stream(name)
    stream.create()
    stream.append({"it": name})
    page.goto(ui)
    page.get_by_label("Search streams").fill(name.rpartition("/")[2].partition(" ")[0][:6])
    page.get_by_role("listbox", name="streams").get_by_role("option").first.click()
    expect(page.locator(".message")).to_contain_text('"it"')
    assert "\u202e" not in (page.locator("body").text_content() or "")


def test_streams_of_odd_names_in_a_bucket_can_be_opened(page: Page, ui: str, client: Client) -> None:
    bucket = client.bucket("oddities")
    bucket.create()
    for name in ["a b", "%41", "ü?#", "it's"]:
        bucket.stream(name).create()
        bucket.stream(name).append({"in": name})
    page.goto(ui)
    page.get_by_role("option", name="oddities").click()
    for name in ["a b", "%41", "ü?#", "it's"]:
        page.get_by_role("option", name=name).click()
        expect(page.locator(".message")).to_contain_text(f'"in": "{name}"')


def test_a_name_that_no_browser_can_ask_for_is_said_to_be_so(page: Page, ui: str, client: Client) -> None:
    page.goto(f"{ui}#/stream/ds/somebucket/.")
    expect(page.get_by_role("alert")).to_contain_text("no browser can ask")


def test_a_megabyte_of_control_characters_is_shown_in_good_time(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/controls", content_type="text/plain")
    stream.create()
    stream.append("\u0001\u0002" * 400_000)
    show(page, ui, "hostile/controls")
    page.locator(".message").click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("more characters")
    assert page.locator(".steering").count() < 10_000


def test_a_string_of_quotes_that_never_ends_is_shown_in_good_time(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/quotes")
    stream.create()
    stream.append({"q": '"' * 1_500_000})
    show(page, ui, "hostile/quotes")
    page.locator(".message").click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("more characters")


def test_words_of_a_string_that_is_cut_keep_their_spaces(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/words")
    stream.create()
    stream.append({"text": "two words " * 200})
    show(page, ui, "hostile/words")
    expect(page.locator(".message")).to_contain_text('"two words two words')


def test_a_text_that_is_cut_inside_a_character_is_still_text(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/cut", content_type="text/plain")
    stream.create()
    stream.append("x" + "é" * 700_000)
    show(page, ui, "hostile/cut")
    page.locator(".message").click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("xéé")
    expect(page.get_by_label("Message", exact=True)).not_to_contain_text("not UTF-8")


def test_a_job_that_is_no_job_does_not_break_the_pipeline(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("pipeline-progress")
    stream.create()
    for value in [None, "words", 7, {"job": {"deep": 1}, "state": ["x"], "error": {"a": 1}}, {"job": "fine"}]:
        stream.append(
            {"type": "job", "key": repr(value), "value": value, "headers": {"operation": "upsert"}},
        )
    page.goto(f"{ui}#/pipeline")
    expect(page.get_by_role("row").filter(has_text="fine")).to_be_visible()


def test_an_operation_of_no_dialect_is_no_change(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("hostile/operation")
    stream.create()
    stream.append({"type": "t", "key": "k", "headers": {"operation": "constructor"}})
    show(page, ui, "hostile/operation", "table")
    expect(page.get_by_label("Current rows")).to_contain_text("This stream holds no changes")
