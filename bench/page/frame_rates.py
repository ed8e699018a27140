"""What is measured of the page: its first view, and frames while it has much to do.

A frame is one that the browser was asked for and drew. The reference is the same browser at rest, in the same run: what
this machine can draw at all.
"""

import json
import subprocess
import sys
import time

from playwright.sync_api import Browser, Page

from bench.spark.figures import Figure, at_least, at_most
from everbrook import Client

FIRST_VIEWS = 9
SETTLE_SECS = 1.0
SECONDS = 8.0
# The frame after the one in which it is there: by then that one was drawn.
PAINTED = """{
  const paint = () => { window.paintedAt = performance.timeOrigin + performance.now(); };
  const look = () => requestAnimationFrame(document.querySelector(%s) ? paint : look);
  look();
}"""
FRAMES_PER_SEC = """seconds => new Promise(resolve => {
  const began = performance.now(); let frames = 0, last = began, longest = 0;
  const draw = now => { frames++; longest = Math.max(longest, now - last); last = now;
    if (now - began < 1000 * seconds) requestAnimationFrame(draw);
    else resolve([1000 * frames / (now - began), longest]); };
  requestAnimationFrame(draw); })"""
SCROLL = """list => new Promise(resolve => {
  let steps = 0;
  const step = () => { list.scrollTop = steps % 8 === 7 ? list.scrollHeight : list.scrollTop + 2500; steps++;
    if (steps < 240) setTimeout(step, 30); else resolve(); };
  step(); })"""


def first_view(browser: Browser, url: str) -> Figure:
    """From the address to the tree of streams on the screen, with nothing in the browser's cache."""
    figure = Figure(case="first view, nothing cached", unit="ms", aim=at_most(200))
    for _ in range(FIRST_VIEWS):
        figure.ours.append(_painted_ms(browser, f"{url}/ui/", ".tree .row"))
        figure.theirs.append(_painted_ms(browser, f"{url}/ui/icon.svg", "svg"))
    figure.remarks.append(f"First views took {min(figure.ours):.0f} to {max(figure.ours):.0f} ms.")
    figure.remarks.append("The reference is the icon alone from the same server: the browser's own share.")
    return figure


def _painted_ms(browser: Browser, address: str, selector: str) -> float:
    """Time what a person waits for. The driver looks only afterwards: its own scripts take longer than many a page."""
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script(PAINTED % json.dumps(selector))
        began = time.time()
        page.goto(address, wait_until="commit")
        time.sleep(SETTLE_SECS)
        return float(page.evaluate("window.paintedAt")) - 1000 * began


def _frames(page: Page, seconds: float) -> tuple[float, float]:
    per_sec, longest_ms = page.evaluate(FRAMES_PER_SEC, seconds)
    return float(per_sec), float(longest_ms)


def _figure(case: str, page: Page, busy: tuple[float, float]) -> Figure:
    figure = Figure(case=case, unit="frames/s", aim=at_least(30), ours=[busy[0]])
    page.goto("about:blank")
    figure.theirs.append(_frames(page, 3.0)[0])
    figure.remarks.append(f"{case}: the longest frame took {busy[1]:.0f} ms.")
    return figure


def live_frames(page: Page, url: str, per_sec: int = 1000) -> Figure:
    """Frames while so many messages a second come from another process, and the newest stay in sight."""
    with Client(url) as client:
        client.stream("bench/live").create()
    page.goto(f"{url}/ui/#/stream/v1/stream/bench/live")
    page.locator(".state.live").wait_for()
    command = [sys.executable, "-m", "bench.page.writer", url, "bench/live", "--per-sec", str(per_sec)]
    with subprocess.Popen([*command, "--seconds", str(SECONDS + 4)]) as writer:
        page.locator(".message").first.wait_for()
        busy = _frames(page, SECONDS)
        shown = page.locator(".log .tools .count").text_content()
        writer.wait()
    figure = _figure(f"{per_sec:,} messages a second on screen", page, busy)
    figure.remarks.append(f"{shown} were on the page at the end of {SECONDS:.0f} s.")
    return figure


def scrolling_frames(page: Page, url: str, messages: int) -> Figure:
    """Frames while a long log is scrolled from end to end, pages being fetched as they come into sight."""
    with Client(url) as client:
        stream = client.stream("bench/long")
        stream.create()
        for first in range(0, messages, 10_000):
            stream.extend([{"n": number, "text": "one of very many"} for number in range(first, first + 10_000)])
    page.goto(f"{url}/ui/#/stream/v1/stream/bench/long")
    page.locator(".message").first.wait_for()
    page.get_by_role("button", name="From the beginning").click()
    page.locator(".state.reading").wait_for()
    page.evaluate(f"() => {{ window.scrolled = ({SCROLL})(document.querySelector('.log .list')) }}")
    busy = _frames(page, SECONDS)
    loaded = page.locator(".log .tools .count").text_content()
    figure = _figure(f"scrolling a log of {messages:,} messages", page, busy)
    figure.remarks.append(f"{loaded} were at hand when it ended.")
    return figure


def tree_frames(page: Page, url: str, streams: int) -> Figure:
    """Frames while a tree of very many streams is scrolled."""
    with Client(url) as client:
        for number in range(streams):
            client.stream(f"bench/tree/{number:06}").create()
    page.goto(f"{url}/ui/")
    page.get_by_role("option", name="bench/").click()
    page.get_by_role("option", name="tree/").click()
    page.wait_for_function(
        f"() => document.querySelector('.tree .list').scrollHeight > {27 * streams}", timeout=120_000
    )
    page.evaluate(f"() => {{ window.scrolled = ({SCROLL})(document.querySelector('.tree .list')) }}")
    return _figure(f"scrolling a tree of {streams:,} streams", page, _frames(page, 5.0))
