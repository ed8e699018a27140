"""Subscriptions as their users see them: requests below a stream root, and a receiver of webhooks with a socket."""

import queue
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from itertools import count
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct

from tests.kit.http_server import AnsweringServer
from tests.kit.wire import Answer, Wire

PATIENCE_SECS = 60.0
DONE = (200, b'{"done": true}')
TAKEN = (200, b"")

_numbers = count()


def fresh(kind: str = "s") -> str:
    """A name that no other test uses."""
    return f"{kind}-{next(_numbers)}"


def offset(position: int) -> str:
    return f"{position:016d}"


def document(answer: Answer) -> Any:  # noqa: ANN401 - whatever the server sent
    """The body of an answer, which says that it is JSON."""
    assert answer.headers["content-type"] == "application/json", answer
    return msgspec.json.decode(answer.body)


def refusal(answer: Answer) -> tuple[int, str]:
    """The status and the code of a refusal, written as §7 has it, with a message for a person."""
    error = document(answer)["error"]
    assert error["message"]
    return answer.status, error["code"]


class Api:
    """Requests below one stream root, over one connection."""

    def __init__(self, wire: Wire, root: str = "/v1/stream") -> None:
        self.wire = wire
        self.root = root

    def send(self, method: str, path: str, content: object = None, **headers: str) -> Answer:
        """Send a request about subscriptions, with a JSON body or none."""
        body = content if isinstance(content, bytes) or content is None else msgspec.json.encode(content)
        if body is not None:
            headers.setdefault("content_type", "application/json")
        return self.wire.request(method, f"{self.root}/__ds/subscriptions/{path}", body, **headers)

    # Streams

    def create(self, path: str, body: bytes | None = None) -> Answer:
        return self.wire.create(f"{self.root}/{path}", "text/plain", body)

    def append(self, path: str, body: bytes = b"news") -> str:
        """Append, and give the new tail."""
        return self.wire.append(f"{self.root}/{path}", body).next_offset

    def events(self, wake_stream: str) -> list[dict[str, Any]]:
        """What is in a wake stream."""
        found: list[dict[str, Any]] = msgspec.json.decode(self.wire.get(f"{self.root}/{wake_stream}?offset=-1").body)
        return found

    # Subscriptions

    def subscribe(self, subscription_id: str, url: str, **config: object) -> Any:  # noqa: ANN401 - a description
        """Create a webhook subscription."""
        answer = self.send("PUT", subscription_id, {"type": "webhook", "webhook": {"url": url}, **config})
        assert answer.status == 201, answer
        return document(answer)

    def subscribe_pull(self, subscription_id: str, wake_stream: str, **config: object) -> Any:  # noqa: ANN401 - the same
        """Create a pull-wake subscription and its wake stream."""
        self.wire.create(f"{self.root}/{wake_stream}", "application/json")
        answer = self.send("PUT", subscription_id, {"type": "pull-wake", "wake_stream": wake_stream, **config})
        assert answer.status == 201, answer
        return document(answer)

    def describe(self, subscription_id: str) -> Any:  # noqa: ANN401 - a description
        return document(self.send("GET", subscription_id))

    def linked(self, subscription_id: str) -> dict[str, tuple[str, str]]:
        """Each stream with the type of its link and its acked offset."""
        streams = self.describe(subscription_id)["streams"]
        return {stream["path"]: (stream["link_type"], stream["acked_offset"]) for stream in streams}

    def acked(self, subscription_id: str, path: str) -> str:
        return self.linked(subscription_id)[path][1]

    def report(self, action: str, subscription_id: str, wake: dict[str, Any], **changed: object) -> Answer:
        """Send a callback, an ack or a release for a wake, with some of what it says changed."""
        said = {"wake_id": wake["wake_id"], "generation": wake["generation"], **changed}
        token = said.pop("token", wake.get("callback_token", wake.get("token")))
        return self.send("POST", f"{subscription_id}/{action}", said, authorization=f"Bearer {token}")

    def claim(self, subscription_id: str, worker: str = "worker-1") -> Answer:
        return self.send("POST", f"{subscription_id}/claim", {"worker": worker})


class Hook(Struct, frozen=True):
    """A webhook as it arrived, and when."""

    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def wake(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Hooks:
    """A receiver of webhooks for as long as the context lasts. `respond` says what it answers."""

    def __init__(self, port: int = 0) -> None:
        self.respond: Callable[[Hook], tuple[int, bytes]] = lambda _hook: TAKEN
        self.arrived: queue.Queue[Hook] = queue.Queue()
        self._server = AnsweringServer(("127.0.0.1", port), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def next(self) -> Hook:
        """The next webhook that arrives."""
        return self.arrived.get(timeout=PATIENCE_SECS)

    def quiet_for(self, secs: float) -> bool:
        """Whether none arrives for a while."""
        try:
            self.arrived.get(timeout=secs)
        except queue.Empty:
            return True
        return False

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook = Hook({name.lower(): value for name, value in self.headers.items()}, body, time.monotonic())
                hooks.arrived.put(hook)
                status, answer = hooks.respond(hook)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("Location", hooks.url)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
