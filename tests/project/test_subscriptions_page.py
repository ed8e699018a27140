"""The examples of docs/subscriptions.md do what the page says."""

import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from tests.server.process import serving
from tests.server.running import eventually
from tests.server.subscribing import Hooks

PAGE = (Path(__file__).parents[2] / "docs/subscriptions.md").read_text(encoding="utf-8")
PUBLISHED_URL = "http://127.0.0.1:4437"
PUBLISHED_RECEIVER = "http://127.0.0.1:8000"


def example(language: str, containing: str) -> str:
    """The one block of that language which contains these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    [found] = [block for block in blocks if containing in block]
    return str(found)


def run_shell(script: str) -> str:
    command = ["bash", "-ec", script]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def run_python(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - our own page
    return names


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    with serving(folder, DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP="true") as server:
        yield f"http://{server.address[0]}:{server.address[1]}"


@contextmanager
def served(app: Callable[..., Any]) -> Iterator[str]:
    """Run an application. Gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        assert eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def acked(url: str, name: str) -> list[str]:
    described = httpx2.get(f"{url}/v1/stream/__ds/subscriptions/{name}").raise_for_status().json()
    return [stream["acked_offset"] for stream in described["streams"]]


def test_the_receiver_verifies_and_is_done(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_python(example("python", "FastAPI").replace(PUBLISHED_URL, url))
    _serve, *requests = example("sh", "mailer").splitlines(keepends=True)
    with served(names["app"]) as receiver:
        script = "".join(requests).replace(PUBLISHED_URL, url).replace(PUBLISHED_RECEIVER, receiver)
        run_shell(script)
        tail = httpx2.head(f"{url}/v1/stream/orders/1").headers["Stream-Next-Offset"]
        assert eventually(lambda: acked(url, "mailer") == [tail])
        assert httpx2.post(f"{receiver}/hook", json={}).status_code == 401
    assert f"mailer orders/1 -1 {tail}\n" in capsys.readouterr().out


def test_the_callback_acks(url: str) -> None:
    call_back = run_python(example("python", "def call_back"))["call_back"]
    with Hooks() as hooks:
        config = {"type": "webhook", "streams": ["slow"], "webhook": {"url": hooks.url}}
        httpx2.put(f"{url}/v1/stream/__ds/subscriptions/slow", json=config).raise_for_status()
        httpx2.put(f"{url}/v1/stream/slow", content=b"12", headers={"Content-Type": "text/plain"})
        wake = hooks.next().wake
        assert call_back(wake, {}, done=False) == {"ok": True, "next_wake": False}
        acks = {"slow": wake["streams"][0]["tail_offset"]}
        assert call_back(wake, acks, done=True) == {"ok": True, "next_wake": False}
    assert acked(url, "slow") == [f"{2:016d}"]


def test_work_is_claimed_by_hand_and_by_the_worker(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_shell(example("sh", '"pull-wake"').replace(PUBLISHED_URL, url))
    printed = run_shell(example("sh", "by hand").replace(PUBLISHED_URL, url))
    assert printed == '[{"n": 1},{"n": 2}]{"ok":true,"next_wake":false}'
    httpx2.post(f"{url}/v1/stream/jobs/today", json={"n": 3}).raise_for_status()
    source = example("python", "worker.run()").replace(PUBLISHED_URL, url).replace("worker.run()", "")
    worker = run_python(source)["worker"]
    thread = threading.Thread(target=worker.run)
    thread.start()
    tail = httpx2.head(f"{url}/v1/stream/jobs/today").headers["Stream-Next-Offset"]
    assert eventually(lambda: acked(url, "jobs") == [tail])
    worker.stop()
    thread.join()
    assert capsys.readouterr().out == "jobs/today {'n': 3}\n"
