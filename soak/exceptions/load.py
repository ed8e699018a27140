"""A load that reaches every kind of callback of a server: each worker does one thing again and again, and counts it.

An exception may cost a worker one answer, so each of them goes on after whatever went wrong. What counts is that all of
them come further.
"""

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from soak.ledger import Log, message, parse, verify
from soak.server import HOST

TIMEOUT_SECS = 3.0
PATIENCE_SECS = 60.0
"""For what happens once, before the load and behind it: a server that starts takes its time on a busy machine."""
PAUSE_SECS = 0.02
TEXT = "application/octet-stream"
SUCCEEDED = range(200, 300)
ROOT = "/v1/stream"
LARGE_BYTES = 200_000


class Failed(Exception):
    """A request was not answered, or not as it should be."""


@dataclass(frozen=True)
class Place:
    """Where the server is, what shows who asks, and how connections are encrypted, if they are."""

    port: int
    authorization: str
    tls: ssl.SSLContext | None = None
    timeout_secs: float = TIMEOUT_SECS

    def connect(self) -> http.client.HTTPConnection:
        """Give a connection that opens with the first request."""
        if self.tls:
            return http.client.HTTPSConnection(HOST, self.port, timeout=self.timeout_secs, context=self.tls)
        return http.client.HTTPConnection(HOST, self.port, timeout=self.timeout_secs)

    def ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None = None,
        /,
        **headers: str,
    ) -> http.client.HTTPResponse:
        """Ask, and give an answer that succeeded. Its body is still to be read."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, {"Authorization": self.authorization, **named})
            answer = connection.getresponse()
            if answer.status not in SUCCEEDED:
                with answer:
                    raise Failed(f"{method} {path}: {answer.status} {answer.read(300)!r}")
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"{method} {path}: {error}") from error
        return answer

    def once(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> bytes:
        """Ask on a new connection, and give the body of the answer."""
        with (
            contextlib.closing(self.connect()) as connection,
            self.ask(connection, method, path, body, **headers) as answer,
        ):
            try:
                return answer.read()
            except (OSError, http.client.HTTPException) as error:
                raise Failed(f"{method} {path}: {error}") from error


class Worker(threading.Thread):
    """Does steps until it is stopped; `done` counts those that went well."""

    def __init__(self, name: str, step: Callable[[], object]) -> None:
        super().__init__(name=name, daemon=True)
        self._step = step
        self._stopped = threading.Event()
        self.done = 0
        self.last_failure = ""

    def run(self) -> None:
        """Go on whatever happens."""
        while not self._stopped.wait(PAUSE_SECS):
            try:
                self._step()
            except (Failed, OSError, http.client.HTTPException, ValueError, KeyError) as failure:
                self.last_failure = f"{type(failure).__name__}: {failure}"
            else:
                self.done += 1

    def stop(self) -> None:
        """Do no more steps."""
        self._stopped.set()


class Appender:
    """Appends to a stream of its own, and knows what was acknowledged."""

    def __init__(self, place: Place, name: str) -> None:
        self._place = place
        self.path = f"{ROOT}/{name}"
        self._log = Log(name)
        self._connection = place.connect()

    def create(self, place: Place) -> None:
        """Make the stream."""
        place.once("PUT", self.path, content_type=TEXT)

    def step(self) -> None:
        """Append once."""
        number = self._log.send()
        try:
            body = message(self._log.writer, number, 50)
            with self._place.ask(self._connection, "POST", self.path, body, content_type=TEXT) as answer:
                answer.read()
        except (Failed, OSError, http.client.HTTPException):
            self._connection.close()
            raise
        self._log.acknowledge(number, int(answer.headers["stream-next-offset"]))

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def verify(self, place: Place) -> int:
        """Hold the stream against what was acknowledged. Gives how many messages it has."""
        content, offset = b"", "-1"
        while True:
            with (
                contextlib.closing(place.connect()) as connection,
                place.ask(connection, "GET", f"{self.path}?offset={offset}") as page,
            ):
                content += page.read()
            offset = page.headers["stream-next-offset"]
            if page.headers.get("stream-up-to-date") == "true":
                return verify(parse(content), [self._log])


class Receiver:
    """Takes webhooks, and says that the work is done."""

    def __init__(self) -> None:
        self.taken = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                wake = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.taken += 1
                acks = [{"path": each["path"], "offset": each["tail_offset"]} for each in wake["streams"]]
                body = json.dumps({"done": True, "acks": acks}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{HOST}:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()


class Load:
    """All workers on one server. They outlive its restarts."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._patient = replace(place, timeout_secs=PATIENCE_SECS)
        self._receiver = Receiver()
        self._appenders = [Appender(place, f"soak-{number}") for number in range(2)]
        self._number = 0
        steps: Mapping[str, Callable[[], object]] = {
            **{f"append to {each.path}": each.step for each in self._appenders},
            "follow by SSE": self._follow,
            "follow by long-poll": self._long_poll,
            "create streams that expire": self._create_mortal,
            "cut by a policy": self._append_with_policy,
            "publish and bootstrap": self._publish,
            "read compressed": self._read_compressed,
            "read the registry": partial(place.once, "GET", f"{ROOT}/__registry__?offset=-1"),
            "look at metrics": partial(place.once, "GET", "/metrics"),
            "begin backups": self._back_up,
            "be woken by webhooks": self._be_woken,
        }
        self.workers = [Worker(name, step) for name, step in steps.items()]

    def begin(self) -> None:
        """Make what the workers work on, and let them."""
        place = self._patient
        for appender in self._appenders:
            appender.create(place)
        place.once("PUT", f"{ROOT}/large", b"x" * LARGE_BYTES, content_type="text/plain")
        place.once("PUT", f"{ROOT}/quiet", b"x", content_type="text/plain")
        place.once("PUT", f"{ROOT}/policy", content_type=TEXT, stream_retention="max-messages=5")
        place.once("PUT", f"{ROOT}/shown", b"x", content_type=TEXT)
        place.once("PUT", f"{ROOT}/hook", content_type=TEXT)
        config = {"type": "webhook", "streams": ["hook"], "webhook": {"url": self._receiver.url}, "lease_ttl_ms": 2_000}
        place.once(
            "PUT", f"{ROOT}/__ds/subscriptions/hook", json.dumps(config).encode(), content_type="application/json"
        )
        for worker in self.workers:
            worker.start()

    def end(self) -> None:
        """Stop all of them."""
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            worker.join()
        for appender in self._appenders:
            appender.close()
        self._receiver.close()

    def verify(self) -> int:
        """Hold the streams against what was acknowledged. Gives how many messages there are."""
        return sum(appender.verify(self._patient) for appender in self._appenders)

    def _follow(self) -> None:
        """Follow for a few events."""
        with contextlib.closing(self._events(f"{self._appenders[0].path}?offset=now&live=sse")) as events:
            for count, _ in enumerate(events):
                if count == 10:  # noqa: PLR2004 - a few
                    return
        raise Failed("an event stream ended")

    def _events(self, path: str) -> Generator[bytes]:
        with (
            contextlib.closing(self.place.connect()) as connection,
            self.place.ask(connection, "GET", path) as answer,
        ):
            deadline = time.monotonic() + TIMEOUT_SECS
            while line := answer.readline():
                if line.startswith(b"data:"):
                    yield line
                    deadline = time.monotonic() + TIMEOUT_SECS
                elif time.monotonic() > deadline:
                    raise Failed("an event stream has keep-alives and no events")

    def _long_poll(self) -> None:
        """Wait until the time is over, at a stream to which nothing comes."""
        self.place.once("GET", f"{ROOT}/quiet?offset=now&live=long-poll")

    def _create_mortal(self) -> None:
        self._number += 1
        self.place.once("PUT", f"{ROOT}/mortal-{self._number}", b"x", content_type=TEXT, stream_ttl="1")

    def _append_with_policy(self) -> None:
        self.place.once("POST", f"{ROOT}/policy", b"x", content_type=TEXT)

    def _publish(self) -> None:
        """Publish a snapshot at the tail, and read it back, alone and with what follows it."""
        place, path = self.place, f"{ROOT}/shown"
        with (
            contextlib.closing(place.connect()) as connection,
            place.ask(connection, "POST", path, b"x", content_type=TEXT) as answer,
        ):
            offset = int(answer.headers["stream-next-offset"])
        place.once("PUT", f"{path}/__ds/snapshot/{offset:016d}", b"s" * LARGE_BYTES, content_type=TEXT)
        if place.once("GET", f"{path}/__ds/snapshot/{offset:016d}") != b"s" * LARGE_BYTES:
            raise Failed("a snapshot is not as it was published")
        place.once("GET", f"{path}/__ds/bootstrap")

    def _read_compressed(self) -> None:
        self.place.once("GET", f"{ROOT}/large?offset=-1", accept_encoding="gzip")

    def _back_up(self) -> None:
        self.place.once("POST", "/admin/backups", b'{"lease_secs": 1}')
        time.sleep(1.0)

    def _be_woken(self) -> None:
        """Append, and wait for the webhook."""
        before = self._receiver.taken
        self.place.once("POST", f"{ROOT}/hook", b"x", content_type=TEXT)
        deadline = time.monotonic() + TIMEOUT_SECS
        while self._receiver.taken == before:
            if time.monotonic() > deadline:
                raise Failed("no webhook came")
            time.sleep(PAUSE_SECS)
