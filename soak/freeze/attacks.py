"""What a hostile tenant does with every permission inside its own bucket, one kind at a time, in a process of its own.

`python -m soak.freeze.attacks PORT TOKEN KIND SECONDS` repeats one kind over several connections until its time is up.
Whatever the server answers is taken: refusing is its right, making others wait is not.
"""

import itertools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from random import Random

from soak.client import Client, Unanswered
from soak.server import HOST

BUCKET = "/ds/hostile"
DAMAGED = 20
MARK = b"this message is going to be damaged "
STREAMS = 10_000
CHAIN = 10_000
NUMBERS = 1_000_000
CREATIONS_AT_ONCE = 500
JSON = {"Content_Type": "application/json"}
THREADS = 4
SLOW_CONNECTIONS = 100
LARGE_BYTES = 500_000


class Tenant:
    """One connection of the hostile tenant."""

    def __init__(self, port: int, token: str, random: Random) -> None:
        self._client = Client(port)
        self._headers = {"Authorization": f"Bearer {token}"}
        self.port, self.random = port, random

    def ask(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> int:
        """Ask once, and give the status: 0 where there was no answer."""
        try:
            return self._client.request(method, BUCKET + path, body, **self._headers, **headers).status
        except Unanswered:
            return 0

    def head(self, method: str, path: str) -> bytes:
        """Write the head of a request by hand."""
        lines = [f"{method} {BUCKET}{path} HTTP/1.1", f"Host: {HOST}"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        return "\r\n".join([*lines, ""]).encode()


def create_many(tenant: Tenant, prefix: str, count: int, **headers: str) -> None:
    """Create streams, many in one write."""
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in (JSON | headers).items()).encode()
    for first in range(0, count, CREATIONS_AT_ONCE):
        numbers = range(first, min(first + CREATIONS_AT_ONCE, count))
        with socket.create_connection((HOST, tenant.port), timeout=60) as connection:
            connection.sendall(b"".join(tenant.head("PUT", f"/{prefix}{n}") + extra + b"\r\n" for n in numbers[:-1]))
            connection.sendall(tenant.head("PUT", f"/{prefix}{numbers[-1]}") + extra + b"Connection: close\r\n\r\n")
            while connection.recv(65_536):
                pass


def patterns(tenant: Tenant) -> None:
    """Subscribe to everything with globs that backtrack, and read the subscription."""
    name = f"/__ds/subscriptions/glob-{tenant.random.randrange(4)}"
    pattern = tenant.random.choice(["**", "/".join(["**"] * 12) + "/x", "*" * 20 + "x", "**/" * 20 + "*a*a*a*a*b"])
    body = {"type": "pull-wake", "pattern": pattern, "wake_stream": "wakes"}
    tenant.ask("PUT", name, json.dumps(body).encode(), **JSON)
    tenant.ask("GET", name)
    tenant.ask("GET", "/__ds/subscriptions?stream=s1")
    tenant.ask("DELETE", name)


def chains(tenant: Tenant) -> None:
    """Fork forks of forks as deep as the server lets one, and read the beginning through all of them."""
    root = f"chain-{tenant.random.randrange(1 << 30)}-"
    tenant.ask("PUT", f"/{root}0", b"[1,2,3]", **JSON)
    deepest = 0
    until = time.monotonic() + 3
    for number in range(1, CHAIN):
        source = f"{BUCKET}/{root}{number - 1}"
        if tenant.ask("PUT", f"/{root}{number}", **JSON, Stream_Forked_From=source) != 201 or time.monotonic() > until:  # noqa: PLR2004
            break
        deepest = number
    for _ in range(100):
        tenant.ask("GET", f"/{root}{deepest}?offset=-1")


def arrays(tenant: Tenant) -> None:
    """Append an array of a million numbers."""
    tenant.ask("PUT", "/array", **JSON)
    tenant.ask("POST", "/array", b"[" + b"1," * (NUMBERS - 1) + b"1]", **JSON)
    tenant.ask("GET", "/array?last=1000000")


def listings(tenant: Tenant) -> None:
    """List everything, and watch for what moves."""
    tenant.ask("GET", "/streams?limit=10000")
    tenant.ask("GET", f"/streams?prefix=s{tenant.random.randrange(10)}&limit=1000")


def expiry(tenant: Tenant) -> None:
    """Let thousands of streams expire in the same second."""
    create_many(tenant, f"dying-{tenant.random.randrange(1 << 30)}-", 5_000, Stream_TTL="1")


def webhooks(tenant: Tenant) -> None:
    """Wake receivers that never answer."""
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen(64)
        url = f"http://{HOST}:{silent.getsockname()[1]}/"
        for number in range(20):
            body = {"type": "webhook", "pattern": "**", "webhook": {"url": url}}
            tenant.ask("PUT", f"/__ds/subscriptions/hook-{number}", json.dumps(body).encode(), **JSON)
        for number in range(200):
            tenant.ask("POST", f"/s{number}", b"1", **JSON)
        time.sleep(0.5)


def producers(tenant: Tenant) -> None:
    """Append as a new producer each time."""
    name = f"p{tenant.random.randrange(1 << 60)}" + "x" * 100
    tenant.ask("POST", "/s1", b"1", **JSON, Producer_Id=name, Producer_Epoch="0", Producer_Seq="0")


def bodies(tenant: Tenant) -> None:
    """Send many bodies, a byte at a time."""
    head = tenant.head("POST", "/s1") + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n["
    connections = []
    for _ in range(SLOW_CONNECTIONS):
        try:
            connections.append(socket.create_connection((HOST, tenant.port), timeout=5))
        except OSError:
            break
    for count in range(20):
        for connection in connections:
            try:
                connection.sendall(head if count == 0 else b" ")
            except OSError:
                continue
        time.sleep(0.1)
    for connection in connections:
        connection.close()


def readers(tenant: Tenant) -> None:
    """Append much to a stream that many connections follow, which read nothing."""
    path = f"/followed-{tenant.random.randrange(1 << 30)}"
    tenant.ask("PUT", path, **JSON)
    connections = []
    for _ in range(SLOW_CONNECTIONS):
        try:
            connections.append(socket.create_connection((HOST, tenant.port), timeout=5))
            connections[-1].sendall(tenant.head("GET", f"{path}?offset=now&live=sse") + b"\r\n")
        except OSError:
            break
    for _ in range(5):
        tenant.ask("POST", path, b'"' + b"x" * LARGE_BYTES + b'"', **JSON)
    for connection in connections:
        connection.close()


def damaged(tenant: Tenant) -> None:
    """Read, append to and follow streams that are damaged."""
    path = f"/damaged-{tenant.random.randrange(DAMAGED)}"
    tenant.ask("GET", path)
    tenant.ask("POST", path, b"more", Content_Type="text/plain")
    tenant.ask("GET", f"{path}?offset=-1&live=long-poll")
    tenant.ask("GET", "/streams")


ATTACKS: Mapping[str, Callable[[Tenant], None]] = {
    attack.__name__: attack
    for attack in (patterns, chains, arrays, listings, expiry, webhooks, producers, bodies, readers, damaged)
}


def prepare(port: int, token: str) -> None:
    """Fill the bucket: many streams, and those that are going to be damaged."""
    tenant = Tenant(port, token, Random(0))  # noqa: S311
    tenant.ask("PUT", "/wakes", **JSON)
    create_many(tenant, "s", STREAMS)
    for number in range(DAMAGED):
        tenant.ask("PUT", f"/damaged-{number}", MARK * 4096, Content_Type="text/plain")


def main(port: int, token: str, kind: str, secs: float) -> None:
    """Do one kind of thing over a few connections. Prints how often."""
    os.nice(10)  # A hostile client would have a machine of its own.
    until = time.monotonic() + secs
    count = itertools.count()

    def repeat(seed: int) -> None:
        tenant = Tenant(port, token, Random(seed))  # noqa: S311
        while time.monotonic() < until:
            ATTACKS[kind](tenant)
            next(count)

    threads = [threading.Thread(target=repeat, args=(seed,), daemon=True) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, until - time.monotonic()))
    sys.stdout.write(f"{next(count)}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))
