"""A process that appends messages at a steady pace, or as many as asked for at once: what the page has to show."""

import argparse
import time

from everbrook import Client

BATCHES_PER_SEC = 20


def write_steadily(url: str, name: str, per_sec: int, seconds: float) -> None:
    """Append so many messages a second, in batches that are spread over it."""
    with Client(url) as client:
        stream = client.stream(name)
        began, count = time.monotonic(), 0
        size = per_sec // BATCHES_PER_SEC
        while (passed := time.monotonic() - began) < seconds:
            if count < passed * per_sec:
                stream.extend([{"n": count + at, "text": "as it comes", "at": time.time()} for at in range(size)])
                count += size
            else:
                time.sleep(0.5 / BATCHES_PER_SEC)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("--per-sec", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    write_steadily(given.url, given.name, given.per_sec, given.seconds)
