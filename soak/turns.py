"""Turns: for how long each operation keeps the event loop from everybody else, over a store of many streams.

While an operation runs, another connection asks for `/healthz` again and again: its longest wait is the longest turn.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE
from everbrook.protocol.state import Change, Head, Identity, Write
from everbrook.storage import DurableStorage
from everbrook.storage.disk import OsDisk
from everbrook.storage.durable import ACID, FILE_DURABLE, FILE_FAST
from soak.client import Client
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import Server

MAX_WAIT_SECS = 0.25
EXPIRING = 20_000
EXPIRY_SECS = 30.0
EXPIRED_WITHIN_SECS = 120.0

_ROOT = "/v1/stream/"
_CONTROL = f"{_ROOT}__ds/subscriptions"
_MODES = {"acid": ACID, "file-durable": FILE_DURABLE, "file-fast": FILE_FAST}
_MESSAGE, _GROUP = b"x" * 100, 10_000
_LONG_AGO = 1_600_000_000_000


@dataclass(slots=True)
class Waits:
    """How long the other connection waited at most, by operation."""

    longest: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)


class Prober:
    """Asks for next to nothing all the time, on a connection of its own, and notes the longest wait."""

    def __init__(self, port: int) -> None:
        self._client = Client(port)
        self._stopping = False
        self.longest = 0.0
        self._thread = threading.Thread(target=self._probe)
        self._thread.start()

    def _probe(self) -> None:
        while not self._stopping:
            began = time.monotonic()
            self._client.expect({200}, "GET", "/healthz")
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.001)

    def stop(self) -> None:
        """Ask no more."""
        self._stopping = True
        self._thread.join()
        self._client.close()


def measure_turns(mode: str, folder: Path, *, streams: int) -> None:
    """Fill a store, run each operation on it, and print for how long others waited. Raises if that was too long."""
    expires_at = int((time.time() + EXPIRY_SECS) * 1000)
    _fill(mode, folder, streams, expires_at)
    waits = Waits()
    with Server(mode, folder, settings={"DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true"}) as server:
        client, prober = Client(server.port), Prober(server.port)
        try:
            for name, operate in OPERATIONS.items():
                with _probed(prober, waits, name):
                    operate(client)
            with _probed(prober, waits, f"expiry of {EXPIRING:,}"):
                _wait_for_expiry(client)
        finally:
            prober.stop()
        counted = _long_turns(client)
        client.close()
        server.stop()
    lines = [
        f"    {name:38} {secs * 1000:8.1f} ms of {waits.took[name]:6.2f} s" for name, secs in waits.longest.items()
    ]
    say(f"{mode}, {streams:,} streams: the longest wait of another connection\n" + "\n".join(lines))
    say(f"{mode}: turns with more than 50 ms of work: {counted or 'none'}")
    slow = {name: secs for name, secs in waits.longest.items() if secs > MAX_WAIT_SECS}
    if slow:
        raise PromiseBroken(f"{mode}: others waited for longer than {MAX_WAIT_SECS} s: {slow}")


@contextmanager
def _probed(prober: Prober, waits: Waits, name: str) -> Iterator[None]:
    prober.longest = 0.0
    began = time.monotonic()
    yield
    waits.took[name] = time.monotonic() - began
    time.sleep(0.1)
    waits.longest[name] = prober.longest


def _fill(mode: str, folder: Path, streams: int, expires_at: int) -> None:
    storage = DurableStorage(OsDisk(), folder / _MODES[mode].store, _MODES[mode], salt=7)
    for start in range(0, streams + EXPIRING, _GROUP):
        group = [_creation(number, streams, expires_at) for number in range(start, start + _GROUP)]
        storage.persist(group)
        storage.apply(group)
    storage.close()


def _creation(number: int, streams: int, expires_at: int) -> Change:
    """Create a stream. Those behind the first ones expire."""
    mortal = number >= streams
    path = f"expiring/{number}" if mortal else f"many/{number % 100}/{number}"
    identity = Identity(
        (_ROOT + path).encode(),
        number + 1,
        DEFAULT_CONTENT_TYPE,
        DEFAULT_CONTENT_TYPE,
        _LONG_AGO,
        expires_at=expires_at if mortal else None,
    )
    return (Write(Head(identity, len(_MESSAGE), _LONG_AGO), _MESSAGE, (len(_MESSAGE),), created=True),)


def _subscribe(name: str, pattern: str) -> Callable[[Client], None]:
    body = f'{{"type":"pull-wake","pattern":"{pattern}","wake_stream":"wake"}}'.encode()
    return lambda client: _ask(client, "PUT", f"{_CONTROL}/{name}", body)


def _ask(client: Client, method: str, path: str, body: bytes | None = None, **headers: str) -> None:
    client.expect({200, 201, 204}, method, path, body, **headers)


def _list(client: Client) -> None:
    _ask(client, "GET", f"{_ROOT}__ds/streams?limit=1000")


def _link(client: Client) -> None:
    paths = ",".join(f'"many/{number % 100}/{number}"' for number in range(10_000))
    _ask(client, "POST", f"{_CONTROL}/some/streams", f'{{"streams":[{paths}]}}'.encode())


def _append_numbers(client: Client) -> None:
    _ask(client, "PUT", f"{_ROOT}numbers", content_type="application/json")
    _ask(client, "POST", f"{_ROOT}numbers", b"[" + b"1," * 999_998 + b"1]", content_type="application/json")


def _fork(client: Client) -> None:
    _ask(client, "PUT", f"{_ROOT}chain/0", _MESSAGE, content_type="text/plain")
    for number in range(1, 65):
        headers = {"content_type": "text/plain", "stream_forked_from": f"{_ROOT}chain/{number - 1}"}
        _ask(client, "PUT", f"{_ROOT}chain/{number}", _MESSAGE, **headers)


def _read_chain(client: Client) -> None:
    for _ in range(20):
        _ask(client, "GET", f"{_ROOT}chain/64")
        _ask(client, "GET", f"{_ROOT}chain/64?skip=60")


def _read_registry(client: Client) -> None:
    """Read it for the first time: it is brought up to what there is."""
    _ask(client, "GET", f"{_ROOT}__registry__")
    time.sleep(5)


def _wait_for_expiry(client: Client) -> None:
    until = time.monotonic() + EXPIRED_WITHIN_SECS
    while b'"stream_count":0' not in client.expect({200}, "GET", f"{_ROOT}__ds/streams?prefix=expiring&limit=1").body:
        if time.monotonic() > until:
            raise PromiseBroken("streams whose time has run out are still listed")
        time.sleep(0.5)
    # Listed or not, they are removed by the scan.
    time.sleep(20)


def _long_turns(client: Client) -> str:
    metrics = client.expect({200}, "GET", "/metrics").body.decode()
    found = re.findall(r'everbrook_long_turns_total\{operation="(\w+)"\} ([\d.]+)', metrics)
    return ", ".join(f"{name} {float(count):.0f}" for name, count in found if float(count))


OPERATIONS: dict[str, Callable[[Client], None]] = {
    "nothing": lambda _client: time.sleep(1),
    "first subscription": _subscribe("some", "none/*"),
    "subscription to **": _subscribe("all", "**"),
    "subscription to **/**/…": _subscribe("hostile", "/".join(["**"] * 130 + ["none"])),
    "description of one to **": lambda client: _ask(client, "GET", f"{_CONTROL}/all"),
    "10,000 explicit links": _link,
    "description of those": lambda client: _ask(client, "GET", f"{_CONTROL}/some"),
    "end of a subscription to **": lambda client: _ask(client, "DELETE", f"{_CONTROL}/all"),
    "list of 1,000 streams": _list,
    "first scrape of metrics": lambda client: _ask(client, "GET", "/metrics"),
    "scrape of metrics": lambda client: _ask(client, "GET", "/metrics"),
    "batch of 999,999 numbers": _append_numbers,
    "chain of 64 forks": _fork,
    "reads through the chain": _read_chain,
    "registry": _read_registry,
    "page of the UI": lambda client: _ask(client, "GET", "/ui/"),
}
