"""The tree of streams: what is there, what comes, what goes."""

from playwright.sync_api import Page, expect

from everbrook import Client


def test_streams_are_a_tree_by_path(page: Page, ui: str, client: Client) -> None:
    client.stream("trees/oak/1").create()
    client.stream("trees/oak/2").create()
    page.goto(ui)
    page.get_by_role("option", name="trees/").click()
    page.get_by_role("option", name="oak/").click()
    page.get_by_role("option", name="2", exact=False).last.click()
    expect(page.get_by_role("heading", name="trees/oak/")).to_be_visible()


def test_the_streams_are_asked_for_while_the_rest_of_the_page_still_comes(page: Page, ui: str) -> None:
    page.route("**/js/app.js", lambda _: None)
    with page.expect_request("**/v1/stream/__ds/streams?*"):
        page.goto(ui, wait_until="commit")
    page.unroute_all(behavior="ignoreErrors")


def test_buckets_are_in_the_tree_with_their_streams(page: Page, ui: str, client: Client) -> None:
    bucket = client.bucket("orchard")
    bucket.create()
    bucket.stream("apples").create()
    page.goto(ui)
    page.get_by_role("option", name="orchard").click()
    page.get_by_role("option", name="apples").click()
    expect(page.get_by_role("heading", name="apples")).to_be_visible()


def test_a_stream_appears_when_another_process_makes_it(page: Page, ui: str, client: Client) -> None:
    page.goto(ui)
    expect(page.locator(".server.live")).to_be_visible()
    client.stream("suddenly").create()
    expect(page.get_by_role("option", name="suddenly")).to_be_visible()


def test_a_stream_that_is_deleted_leaves_the_tree(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("fleeting")
    stream.create()
    page.goto(ui)
    expect(page.get_by_role("option", name="fleeting")).to_be_visible()
    stream.delete()
    expect(page.get_by_role("option", name="fleeting")).to_have_count(0)


def test_search_finds_streams_by_any_part_of_their_names(page: Page, ui: str, client: Client) -> None:
    client.stream("deep/down/in/the/needle-haystack").create()
    page.goto(ui)
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE down")
    expect(page.get_by_role("listbox", name="streams").get_by_role("option")).to_have_count(1)


def test_a_stream_is_made_and_deleted_by_typing_its_name(page: Page, ui: str, client: Client) -> None:
    page.goto(ui)
    page.get_by_role("button", name="New").click()
    page.get_by_label("Path").fill("made/here")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="made/here")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(confirm).to_be_disabled()
    page.get_by_label("Name of the stream").fill("made/here")
    confirm.click()
    expect(page.get_by_role("heading", name="made/here")).to_have_count(0)
    expect(page.get_by_role("option", name="made/")).to_have_count(0)
    assert not client.stream("made/here").exists()


def test_what_the_server_refuses_is_said_in_the_dialog(page: Page, ui: str, complaints: object) -> None:
    page.goto(ui)
    page.get_by_role("button", name="New").click()
    page.get_by_label("Path").fill("bad//path")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("must not have an empty segment")
    complaints.said.clear()  # type: ignore[attr-defined]


def test_thousands_of_streams_need_no_more_rows_than_fit(page: Page, ui: str, client: Client) -> None:
    for number in range(1050):
        client.stream(f"many/{number:04}").create()
    page.goto(ui)
    page.get_by_role("option", name="many/").click()
    expect(page.locator(".tree-foot")).to_contain_text("1,0")
    page.get_by_role("listbox", name="streams").press("End")
    expect(page.get_by_role("option", name="1049")).to_be_visible()
    assert page.get_by_role("option").count() < 100
