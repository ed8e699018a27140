"""The real Vercel AI SDK reads our UI message streams, leaves in the middle, and resumes."""

import json
import subprocess
from pathlib import Path

from tests.client.agents.web.application import WORDS, Model
from tools.node import find_node, install_packages

FOLDER = Path(__file__).parents[1] / "ai_sdk"
TIMEOUT_SECS = 60


def test_the_transport_of_the_ai_sdk_resumes_an_answer(ui: str, model: Model) -> None:
    model.pause_secs = 0.15
    node = find_node()
    install_packages(FOLDER, node)
    command = [str(node.executable), "chat.mjs", ui, "5"]
    ran = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=TIMEOUT_SECS, check=False)
    assert ran.returncode == 0, ran.stderr
    got = json.loads(ran.stdout)
    assert [chunk["type"] for chunk in got["cut"]] == ["start", "start-step", "text-start", "text-delta", "text-delta"]
    (text,) = (part for part in got["resumed"]["parts"] if part["type"] == "text")
    assert (got["resumed"]["id"], text["text"], text["state"]) == ("m1", "".join(WORDS), "done")
    assert (got["afterwards"], model.asked) == (None, 1)
