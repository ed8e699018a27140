"""`python -m bench.page`: measure the web page in a real browser, and print the table."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.extensions.section import format_sections
from bench.page.frame_rates import first_view, live_frames, scrolling_frames, tree_frames
from bench.spark.figures import Figure, section_of
from tests.kit.server_process import serving
from tools.browser import launched


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; 1 if an aim was missed."""
    parser = argparse.ArgumentParser(prog="bench.page")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--streams", type=int, default=100_000)
    given = parser.parse_args(arguments)
    figures = _measure(given.messages, given.streams)
    print(format_sections([section_of("The web page, in a browser on this machine", figures)]))
    return 0 if all(figure.aim is None or figure.aim.met(median(figure.ours)) for figure in figures) else 1


def _measure(messages: int, streams: int) -> list[Figure]:
    bounds = {"DS_LIMITS__MAX_STREAM_BYTES": "2000000000", "DS_LIMITS__MAX_MEMORY_BYTES": "4000000000"}
    with TemporaryDirectory() as folder, serving(Path(folder), **bounds) as server, launched() as browser:
        url = f"http://{server.address[0]}:{server.address[1]}"
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        live = live_frames(page, url)
        return [
            first_view(browser, url),
            live,
            scrolling_frames(page, url, messages),
            tree_frames(page, url, streams),
        ]


if __name__ == "__main__":
    sys.exit(main())
