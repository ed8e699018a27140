"""A receiver of webhooks on the loopback interface. It outlives the servers that call it, and keeps what it saw."""

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from everbrook.client.webhooks import verify
from soak.client import Unanswered
from soak.server import HOST
from soak.subscriptions.ledger import Grant, pending_of
from soak.subscriptions.work import Subscriber, Work, Workplace


class _Listener(ThreadingHTTPServer):
    """Takes calls. That a caller was killed is nothing to speak of."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: what goes wrong in a call that has come whole is told otherwise."""


class Receiver:
    """An HTTP server on the loopback interface that webhooks go to. It outlives the servers that call it."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.subscribers: dict[str, Subscriber] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver.take(self)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = _Listener((HOST, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where webhooks go to."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def close(self) -> None:
        """Take no more calls."""
        self._server.shutdown()
        self._server.server_close()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        """Take a webhook, whatever is to be done about it."""
        try:
            self._take(request)
        except (Unanswered, OSError):
            request.close_connection = True  # the server is gone
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
            self.place.fail(error)

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = _whole_body(request)
        self.place.moments.reach("delivery")
        verify(body, request.headers["Webhook-Signature"], self.place.keys, time.time())
        wake = json.loads(body)
        subscriber = self.subscribers[wake["subscription_id"]]
        grant = Grant(wake["generation"], wake["wake_id"], wake["callback_token"])
        told = pending_of(wake)
        subscriber.cursors.tell(grant, told, claimed=False)
        work = Work(self.place, subscriber, grant, told)
        try:
            self._act(request, work, self.place.way())
        finally:
            work.close()

    def _act(self, request: BaseHTTPRequestHandler, work: Work, way: str) -> None:
        if way in {"fail", "release"}:
            self._answer(request, 500, {})
        elif way == "done":
            work.read()
            work.attempt_tails()
            self._answer(request, 200, {"done": True})
        elif way == "early":
            work.read()
            work.in_steps()
            self._answer(request, 200, {})
        else:
            self._answer(request, 200, {})
            self._act_later(work, way)

    def _act_later(self, work: Work, way: str) -> None:
        if way != "forget":
            work.read()
        if way == "steps":
            work.in_steps()
        elif way == "late":
            work.too_late()

    def _answer(self, request: BaseHTTPRequestHandler, status: int, document: Mapping[str, object]) -> None:
        content = json.dumps(document).encode()
        self.place.moments.reach("answer")
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
        request.wfile.flush()


def _whole_body(request: BaseHTTPRequestHandler) -> bytes:
    """Read a request to its end. One that is cut off was being sent when its server was killed."""
    length = int(request.headers.get("Content-Length", "-1"))
    body = request.rfile.read(length) if length >= 0 else b""
    if len(body) != length:
        raise ConnectionError("the request was cut off")
    return body
