"""The callback of docs/subscriptions.md acks. That the page's blocks run is a matter of tests/tooling/docs."""

from pathlib import Path
from typing import Any

import httpx2

from tests.kit.server_process import serving
from tests.kit.subscriber import Hooks
from tests.tooling.docs.page import parse_page

PAGE = parse_page((Path(__file__).parents[3] / "docs/subscriptions.md").read_text(encoding="utf-8"))


def acked(url: str, name: str) -> list[str]:
    described = httpx2.get(f"{url}/v1/stream/__ds/subscriptions/{name}").raise_for_status().json()
    return [stream["acked_offset"] for stream in described["streams"]]


def test_the_callback_acks(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    [example] = [block.code for block in PAGE if "def call_back" in block.code]
    exec(example, names)  # noqa: S102 - our own page
    with serving(tmp_path, DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP="true") as server, Hooks() as hooks:
        url = f"http://{server.address[0]}:{server.address[1]}"
        config = {"type": "webhook", "streams": ["slow"], "webhook": {"url": hooks.url}}
        httpx2.put(f"{url}/v1/stream/__ds/subscriptions/slow", json=config).raise_for_status()
        httpx2.put(f"{url}/v1/stream/slow", content=b"12", headers={"Content-Type": "text/plain"})
        wake = hooks.next().wake
        assert names["call_back"](wake, {}, done=False) == {"ok": True, "next_wake": False}
        acks = {"slow": wake["streams"][0]["tail_offset"]}
        assert names["call_back"](wake, acks, done=True) == {"ok": True, "next_wake": False}
        assert acked(url, "slow") == [f"{2:016d}"]
