"""The servers that are held to the suite: every way in, over every storage mode, each a process of its own."""

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.kit.ports import free_port

HOST = "127.0.0.1"
START_TIMEOUT_SECS = 60
STOP_TIMEOUT_SECS = 60
SETTINGS = {
    "DS_SERVER__LONG_POLL_TIMEOUT_SECS": "0.5",  # several tests wait for one to end
    "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true",  # the suite receives its webhooks itself
}


class Target(Struct, frozen=True):
    """A transport over a storage mode."""

    transport: str
    storage: str

    @property
    def name(self) -> str:
        return f"{self.transport}-{self.storage}"


TARGETS = [
    Target("http1", "memory"),
    Target("http1", "acid"),
    Target("http1", "file-fast"),
    Target("http1", "file-durable"),
    Target("asgi", "memory"),
]


def command_of(transport: str, port: int) -> list[str]:
    """Give the command line of a server."""
    address = ["--host", HOST, "--port", str(port)]
    if transport == "http1":
        return [str(Path(sys.executable).parent / "everbrook"), "serve", *address]
    application = ["--factory", "everbrook.server.asgi:create_app"]
    # Fetch reuses a connection for 4 seconds. uvicorn closes it after 5, which is too near on a busy machine.
    options = ["--timeout-keep-alive", "60", "--log-level", "warning"]
    return [sys.executable, "-m", "uvicorn", *application, *address, *options]


@contextmanager
def serving(
    target: Target,
    folder: Path,
    *,
    command: Callable[[str, int], list[str]] = command_of,
    stop_timeout_secs: float = STOP_TIMEOUT_SECS,
) -> Iterator[str]:
    """Run `target` in the empty `folder`, so that no settings of the checkout reach it, and give its base URL."""
    port = free_port()
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(target.transport, port),
            cwd=folder,
            env=environment_of(target),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_healthy(process, port, log)
        yield f"http://{HOST}:{port}"
    finally:
        _stop(process, stop_timeout_secs)
        print(log.read_text(errors="replace")[-4000:])  # noqa: T201 - pytest shows it when the test fails


def environment_of(target: Target) -> dict[str, str]:
    """Give the variables of a server: those of this process, but for its settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DS_")}
    return inherited | SETTINGS | {"DS_STORAGE__MODE": target.storage}


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECS
    while not _healthy(port):
        if process.poll() is not None or time.monotonic() > deadline:
            state = "still starting" if process.returncode is None else f"ended with {process.returncode}"
            raise RuntimeError(f"no healthy server on port {port} ({state}):\n{log.read_text(errors='replace')}")
        time.sleep(0.05)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes], timeout_secs: float) -> None:
    process.terminate()
    try:
        process.wait(timeout_secs)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
