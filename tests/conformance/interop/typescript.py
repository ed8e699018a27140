"""The official TypeScript client in a process of its own, which does what it is told and says what it saw."""

import base64
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import json

from tools.node import find_node, install_packages

FOLDER = Path(__file__).parent
PATIENCE_SECS = 60.0


class Refused(Exception):
    """The TypeScript client raised an error. `told` is what that says of itself."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(f"{told.get('name')}: {told.get('message')}")
        self.told = told


def text(value: str) -> dict[str, str]:
    """Say what to append: a text, or JSON as text."""
    return {"text": value}


def binary(value: bytes) -> dict[str, str]:
    """Say what to append: bytes."""
    return {"base64": base64.b64encode(value).decode()}


def messages(values: Sequence[object]) -> list[dict[str, str]]:
    """Say what to append to a JSON stream: values, one by one."""
    return [text(json.encode(value).decode()) for value in values]


class TypeScript:
    """The agent, for as long as the context lasts. `call` waits for what a command gives, `start` does not."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}

    def __enter__(self) -> Self:
        node = find_node()
        install_packages(FOLDER, node)
        command = [str(node.executable), str(FOLDER / "agent.mjs")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def start(self, command: str, **options: object) -> "Future[dict[str, Any]]":
        """Let it begin with something, which may take until somebody else has done something."""
        number = next(self._numbers)
        answer: Future[dict[str, Any]] = Future()
        self._waiting[number] = answer
        assert self._process.stdin is not None
        self._process.stdin.write(json.encode({"id": number, "command": command, **options}) + b"\n")
        self._process.stdin.flush()
        return answer

    def call(self, command: str, **options: object) -> dict[str, Any]:
        """Let it do something, and give what it saw."""
        return self.start(command, **options).result(PATIENCE_SECS)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.decode(line)
            waiting = self._waiting.pop(answer["id"])
            if "error" in answer:
                waiting.set_exception(Refused(answer["error"]))
            else:
                waiting.set_result(answer["result"])
