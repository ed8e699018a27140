"""`python tools/screenshots.py`: pictures of every view of the web page, light and dark, for the documentation.

A server is filled with something to look at: a chat, a session, jobs, agents. What moves is moving while the
pictures are taken.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser, Page

from everbrook import Client
from everbrook.client import session_events, state_events
from tests.kit.server_process import serving
from tools.browser import launched

FOLDER = Path("docs/images")
SIZE = {"width": 1280, "height": 800}
WORDS = ["Durable", "streams", "let", "a", "reader", "come", "back", "exactly", "where", "it", "was"]
JOBS = (("sessions", "sessions/* to a table", 4200), ("users", "changes of users to a stream", 310))

VIEWS = {
    "streams": "#/streams",
    "stream": "#/stream/v1/stream/chats/42",
    "session": "#/stream/v1/stream/sessions/standup?tab=table",
    "snapshot": "#/stream/v1/stream/docs/readme?tab=snapshot",
    "bootstrap": "#/stream/v1/stream/docs/readme?tab=bootstrap",
    "producers": "#/stream/v1/stream/chats/42?tab=producers",
    "subscriptions": "#/stream/v1/stream/chats/42?tab=subscriptions",
    "about": "#/stream/v1/stream/chats/42?tab=facts",
    "pipeline": "#/pipeline",
    "server": "#/server",
}


def fill(client: Client) -> None:
    """Create streams with content."""
    chat = client.stream("chats/42")
    chat.create()
    with chat.producer("assistant") as producer:
        for number, word in enumerate(WORDS * 8):
            producer.append({"role": "assistant", "token": word, "index": number, "usage": {"total": number}})
    session = client.stream("sessions/standup")
    session.create()
    for number, name in enumerate(["Ada", "Grace", "Linus", "Barbara", "Edsger"]):
        session.append(session_events.set("member", f"user:{number}", {"name": name, "online": number % 2 == 0}))
        session.append(state_events.insert("message", f"m:{number}", {"from": name, "text": " ".join(WORDS[number:])}))
    document = client.stream("docs/readme")
    document.create()
    offset = document.append({"op": "insert", "at": 0, "text": "Hello"})
    document.publish(b'{"title": "Readme", "text": "Hello", "version": 1}', offset=offset)
    document.append({"op": "insert", "at": 5, "text": ", world"})
    client.stream("wakes").create()
    client.subscription("summaries").create(pattern="chats/*", wake_stream="wakes", description="summarise chats")
    for number in range(24):
        client.stream(f"agents/run-{number:03}/events").create(ttl_secs=86_400)
    client.bucket("tenants").create()
    client.bucket("tenants").stream("acme").create()


def tell_of_jobs(client: Client, number: int) -> None:
    """Append the status messages of a pipeline."""
    progress = client.stream("pipeline-progress")
    progress.create(exist_ok=True)
    for name, what, rate in JOBS:
        job = {
            "job": name,
            "what": what,
            "state": "running",
            "rows": 9000 + number * rate,
            "rows_per_second": rate + 60 * (number % 7),
            "batch_ms": 38 + number % 9,
            "lag_bytes": 900 * (number % 5),
            "restarts": 0,
            "dead_letters": 0,
            "error": None,
        }
        progress.append(state_events.upsert("job", name, job))
    runner = {"pid": 4711, "host": "pipeline-1", "heartbeat_at": datetime.now(UTC).isoformat()}
    progress.append(state_events.upsert("runner", "runner", runner))


@contextmanager
def moving(url: str) -> Iterator[None]:
    """Keep the streams moving."""
    ended = threading.Event()

    def move() -> None:
        with Client(url) as client:
            number = 0
            while not ended.wait(0.15):
                number += 1
                client.stream("chats/42").append(
                    {"role": "assistant", "token": WORDS[number % len(WORDS)], "index": number}
                )
                online = {"name": "Grace", "online": number % 2 == 0}
                client.stream("sessions/standup").append(session_events.set("member", "user:1", online))
                tell_of_jobs(client, number)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def take(browser: Browser, url: str, theme: str) -> None:
    """Take a picture of each view."""
    with browser.new_context(viewport=SIZE, color_scheme=theme) as context:  # type: ignore[arg-type]
        page: Page = context.new_page()
        for name, place in VIEWS.items():
            page.goto(f"{url}/ui/{place}")
            time.sleep(9 if name in {"server", "pipeline"} else 2)
            if name == "stream":
                page.locator(".message").nth(20).click()
                time.sleep(0.5)
            page.screenshot(path=FOLDER / f"ui-{name}-{theme}.png")
            print(FOLDER / f"ui-{name}-{theme}.png")


def main() -> None:
    """Take all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, serving(Path(folder), "--storage", "acid") as server, launched() as browser:
        url = f"http://{server.address[0]}:{server.address[1]}"
        with Client(url) as client:
            fill(client)
            tell_of_jobs(client, 0)
        with moving(url):
            for theme in ("light", "dark"):
                take(browser, url, theme)


if __name__ == "__main__":
    main()
