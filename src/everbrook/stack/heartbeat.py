"""The heartbeat: every few seconds a tick. An odd one is a row in `items`, an even one an event in `session-events`.

Each tick has its effect exactly once, even if a process is killed. Its number is saved before it, and it is repeated
after a restart: the row is then found by its title, and the event by its producer's position.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from uuid import uuid4

import msgspec
import psycopg

from everbrook import Client
from everbrook.atomic_file import replace_file
from everbrook.client.errors import ClientError
from everbrook.protocol.errors import ProtocolError
from everbrook.stack.site import EVENTS_STREAM, INTERVAL_SECS, POSTGRES_URL, SERVER_URL

_RETRY_SECS = 1.0


class Progress(msgspec.Struct):
    """The tick that is under way, and the producer of the even ones."""

    tick: int
    producer: str


class Heartbeat:
    """Makes the ticks. The file with the progress says which one is next."""

    def __init__(self, client: Client, postgres_url: str, file: Path) -> None:
        self._stream = client.stream(EVENTS_STREAM)
        self._postgres_url = postgres_url
        self._file = file
        self.progress = self._load()

    def beat(self) -> int:
        """Make the tick that is due, advance to the next, and return the number of the one that was made."""
        done = self.progress.tick
        self._save()
        if done % 2:
            self._insert(done)
        else:
            self._append(done)
        self.progress.tick += 1
        self._save()
        return done

    def _insert(self, tick: int) -> None:
        title = f"heartbeat {tick}"
        with psycopg.connect(self._postgres_url, connect_timeout=10) as connection:
            connection.execute(
                "INSERT INTO items (title, body) SELECT %(title)s::text, %(body)s "
                "WHERE NOT EXISTS (SELECT FROM items WHERE title = %(title)s AND body = %(body)s)",
                {"title": title, "body": f"from {self.progress.producer}"},
            )

    def _append(self, tick: int) -> None:
        event = {"key": "heartbeat", "type": "heartbeat", "operation": "set", "value": {"tick": tick}}
        with self._stream.producer(self.progress.producer, resume=True) as producer:
            # An earlier run may have appended the event and ended before it saved its progress.
            if producer.position != str(tick):
                producer.append(event, position=str(tick))

    def _load(self) -> Progress:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Progress)
        except FileNotFoundError:
            return Progress(1, f"heartbeat-{uuid4()}")

    def _save(self) -> None:
        replace_file(self._file, msgspec.json.encode(self.progress))


def beat_for_ever(heartbeat: Heartbeat, interval_secs: float) -> None:
    """Tick for ever, and log each tick. A tick that fails is logged and tried again."""
    while True:
        try:
            tick = heartbeat.beat()
        except (psycopg.Error, ClientError, ProtocolError) as error:
            _say(event="failed", tick=heartbeat.progress.tick, error=" ".join(str(error).split()))
            time.sleep(_RETRY_SECS)
            continue
        _say(event="tick", tick=tick, to="items" if tick % 2 else EVENTS_STREAM)
        time.sleep(interval_secs)


def _say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m everbrook.stack.heartbeat", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the file with the progress")
    parser.add_argument("--interval", type=float, default=INTERVAL_SECS, help="seconds between two ticks")
    arguments = parser.parse_args()
    with Client(os.environ[SERVER_URL]) as client:
        beat_for_ever(Heartbeat(client, os.environ[POSTGRES_URL], arguments.state), arguments.interval)


if __name__ == "__main__":
    main()
