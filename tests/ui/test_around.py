"""What is around a stream, and around all of them: snapshots, producers, subscriptions, jobs, the server."""

import re
from datetime import UTC, datetime
from importlib.resources import files
from urllib.request import urlopen

from playwright.sync_api import Page, expect

from everbrook import Client
from everbrook.client import state_events


def show(page: Page, ui: str, name: str, tab: str) -> None:
    page.goto(f"{ui}#/stream/v1/stream/{name}?tab={tab}")


def test_the_snapshot_of_a_stream_is_shown(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("around/snapshot")
    stream.create()
    offset = stream.append({"n": 1})
    stream.publish(b'{"sum": 41}', offset=offset)
    show(page, ui, "around/snapshot", "snapshot")
    expect(page.get_by_label("Snapshot", exact=True)).to_contain_text('"sum"')


def test_the_bootstrap_of_a_stream_is_shown_part_by_part(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("around/bootstrap")
    stream.create()
    stream.append({"first": 1})
    stream.append({"second": 2})
    show(page, ui, "around/bootstrap", "bootstrap")
    expect(page.get_by_label("Bootstrap", exact=True)).to_contain_text("then 2 messages")
    expect(page.get_by_label("Bootstrap", exact=True)).to_contain_text('"second"')


def test_the_producers_of_a_stream_are_listed(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("around/producers")
    stream.create()
    with stream.producer("agent-7") as producer:
        producer.append({"n": 1})
    show(page, ui, "around/producers", "producers")
    expect(page.get_by_role("cell", name="agent-7")).to_be_visible()


def test_the_subscriptions_of_a_stream_are_listed(page: Page, ui: str, client: Client) -> None:
    client.stream("around/wakes").create()
    client.stream("around/subscribed").create()
    client.subscription("workers").create(pattern="around/*", wake_stream="around/wakes")
    show(page, ui, "around/subscribed", "subscriptions")
    expect(page.get_by_role("cell", name="workers")).to_be_visible()
    client.stream("apart").create()
    show(page, ui, "apart", "subscriptions")
    expect(page.get_by_label("Subscriptions", exact=True)).to_contain_text("No subscription")


def test_jobs_are_shown_as_they_tell_of_themselves(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("pipeline-progress")
    stream.create()
    job = {"job": "sessions", "what": "streams to a table", "state": "running", "rows": 1200, "rows_per_second": 300.0}
    job |= {"batch_ms": 40, "lag_bytes": 2048, "restarts": 0, "dead_letters": 3, "error": None}
    runner = {"pid": 1, "host": "here", "heartbeat_at": datetime.now(UTC).isoformat()}
    stream.append(state_events.upsert("job", "sessions", job))
    stream.append(state_events.upsert("runner", "runner", runner))
    page.goto(f"{ui}#/pipeline")
    expect(page.get_by_role("row").filter(has_text="sessions")).to_contain_text("running")
    stream.append(state_events.upsert("job", "sessions", job | {"state": "failed", "error": "the table is gone"}))
    expect(page.get_by_role("row").filter(has_text="sessions")).to_contain_text("the table is gone")
    expect(page.locator(".chart canvas").first).to_be_visible()


def test_a_server_without_jobs_says_how_to_have_some(page: Page, ui: str, client: Client) -> None:
    client.stream("pipeline-progress").delete(missing_ok=True)
    page.goto(f"{ui}#/pipeline")
    expect(page.get_by_label("Pipeline", exact=True)).to_contain_text("everbrook pipeline run")


def test_the_server_shows_its_pace_and_figures(page: Page, ui: str, client: Client) -> None:
    client.stream("around/pace").create()
    page.goto(f"{ui}#/server")
    expect(page.locator(".figures")).to_contain_text("Streams")
    expect(page.locator(".chart canvas")).to_have_count(8)
    client.stream("around/pace").extend([{"n": number} for number in range(100)])
    expect(page.get_by_role("img", name="Appended messages per second")).not_to_have_attribute(
        "aria-label", "Appended messages per second: nothing yet"
    )


def test_every_metric_that_the_page_shows_is_one_of_the_server(page: Page, ui: str, client: Client) -> None:
    client.stream("around/metrics").create()
    source = (files("everbrook.server.ui") / "static/js/views/status.js").read_text(encoding="utf-8")
    shown = set(re.findall(r'"((?:everbrook|process)_\w+)"', source))
    with urlopen(f"{client.url}/metrics") as answer:  # noqa: S310 - our own server
        told = set(re.findall(r"^# TYPE (\w+)", answer.read().decode(), re.MULTILINE))
    assert {name.removesuffix("_count") for name in shown} <= told
