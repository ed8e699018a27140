"""Somebody who follows a page from top to bottom: in one folder, with one terminal, one Python session and one server.

The folder is what a checkout gives: `config`, `examples`, `.venv`, and a `make` that only says what it would do.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, chdir
from pathlib import Path
from random import SystemRandom
from typing import ClassVar
from unittest.mock import patch

import msgspec

from everbrook.settings import load_settings
from tests.tooling.docs.console import outputs_of, parse_console, script_of
from tests.tooling.docs.interpreter import Interpreter
from tests.tooling.docs.page import Block, Note
from tests.tooling.docs.ports import Ports
from tests.tooling.docs.shell import SERVE, SERVERS, Shell
from tests.tooling.docs.shown import first_missing, matches, promised, shape

ROOT = Path(__file__).parents[3]
ALONE = (*SERVERS, "everbrook keys", "everbrook check")  # they want the store for themselves
OWN_SERVER = f"{SERVE} >.server 2>&1 &\nsleep 0\n"
ENDLESS_SECS = 0.5  # long enough to finish what comes after the last line that is shown
MAKE = f'#!/bin/sh\nexec /usr/bin/env -u MAKEFLAGS PATH="${{PATH#*:}}" make -C "{ROOT}" --dry-run "$@" >/dev/null\n'
CURL = "fail-with-body\nsilent\nshow-error\n"


class Visit:
    """A page as its reader lives it. Blocks are run in their order, each once."""

    def __init__(
        self, page: str, blocks: list[Block], folder: Path, ports: Ports | None = None, *, served: bool = True
    ) -> None:
        """Begin at the top of a page. Where it is not `served`, there is only the server that the page starts."""
        self._page, self._blocks, self._folder, self._served = page, blocks, folder, served
        self._ports = ports or Ports(SystemRandom())
        self._environment = self._prepare()
        self._output = ""
        self._done = 0
        self._open = ExitStack()
        self._shell = self._open.enter_context(Shell(folder, self._environment))
        self._interpreter = self._open.enter_context(Interpreter())

    def _prepare(self) -> dict[str, str]:
        for name, content in {".bin/make": MAKE, ".curlrc": CURL}.items():
            (self._folder / name).parent.mkdir(exist_ok=True)
            (self._folder / name).write_text(content)
        (self._folder / ".bin/make").chmod(0o755)
        (self._folder / ".venv").symlink_to(sys.prefix)
        (self._folder / "examples").symlink_to(ROOT / "examples")
        shutil.copytree(ROOT / "config", self._folder / "config")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DS_", "EVERBROOK_"))}
        path = f"{self._folder}/.bin:{Path(sys.executable).parent}:{inherited['PATH']}"
        return inherited | {
            "PATH": path,
            "HOME": str(self._folder),
            "PYTHONUNBUFFERED": "1",
            "EVERBROOK_URL": f"http://127.0.0.1:{self._ports['4437']}",
            "DS_SERVER__PORT": self._ports["4437"],
            "DS_LIMITS__MAX_CONNECTIONS": "100",
        }

    def processes(self) -> set[int]:
        """Give what the page has started and what still runs."""
        return self._shell.children()

    def end(self) -> None:
        """End what the page left running."""
        self._open.close()

    def reach(self, index: int) -> None:
        """Run a block, and before it those above that were not run yet."""
        while self._done <= index:
            block, self._done = self._blocks[self._done], self._done + 1
            if not block.not_run:
                self._run(block)

    def _run(self, block: Block) -> None:
        if block.file:
            self._save(block)
        elif block.note is Note.OUTPUT:
            self._compare(block)
        elif block.language in self._RUNNERS:
            self._RUNNERS[block.language](self, block)
        else:
            known = ", ".join(self._RUNNERS)
            raise AssertionError(f"don't know how to run a block of language '{block.language}'; known are {known}")

    def _save(self, block: Block) -> None:
        path = self._folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._ports.map(block.code), encoding="utf-8")

    def _compare(self, block: Block) -> None:
        """Hold what is shown against what the block before it printed."""
        if block.language == "json":
            assert shape(self._output) == shape(block.code), f"the answer has other keys or types:\n{self._output}"
        else:
            assert matches(block.code, self._ports.unmap(self._output)), f"what was printed is another:\n{self._output}"

    # Languages

    def _run_python(self, block: Block) -> None:
        self._serve(block)
        code = self._ports.map(block.code)
        with patch.dict(os.environ, self._environment, clear=True), chdir(self._folder):
            self._output = self._interpreter.run(code, self._page, block.line, self._until(block))
        self._check_promises(block)

    def _run_sh(self, block: Block) -> None:
        self._serve(block)
        ran = self._shell.run(self._ports.map(block.code), self._until(block))
        self._output = ran.output
        assert not ran.failed, f"failed: {ran.failed}\n{ran.errors}{ran.output}"
        self._check_promises(block)

    def _run_console(self, block: Block) -> None:
        self._serve(block)
        commands = parse_console(block.code)
        ran = self._shell.run(self._ports.map(script_of(commands)), self._until(block))
        outputs = outputs_of(self._ports.unmap(ran.output))
        assert len(outputs) == len(commands), ran
        for command, output in zip(commands, outputs, strict=True):
            assert not command.shown or matches(command.shown, output), f"{command.script}printed:\n{output}"

    def _run_toml(self, block: Block) -> None:
        path = self._folder / ".settings.toml"
        path.write_text(block.code, encoding="utf-8")
        load_settings(config_file=path, folder=self._folder / "nowhere", environ={})

    def _run_json(self, block: Block) -> None:
        msgspec.json.decode(block.code)

    def _run_text(self, block: Block) -> None:
        """It is only shown."""

    _RUNNERS: ClassVar[dict[str, Callable[["Visit", Block], None]]] = {
        "python": _run_python,
        "sh": _run_sh,
        "console": _run_console,
        "toml": _run_toml,
        "json": _run_json,
        "text": _run_text,
    }

    def _check_promises(self, block: Block) -> None:
        missing = first_missing(promised(block.code), self._ports.unmap(self._output))
        assert missing is None, f"not printed: {missing}\nbut:\n{self._output}"

    def _until(self, block: Block) -> Callable[[str], bool] | None:
        """When to interrupt a block: never, or a moment after all that it promises was printed."""
        if block.note is not Note.UNTIL_INTERRUPTED:
            return None
        promises = promised(block.code)
        quiet_since = time.monotonic()

        def over(output: str) -> bool:
            nonlocal quiet_since
            if first_missing(promises, self._ports.unmap(output)) is not None:
                quiet_since = time.monotonic()
            if time.monotonic() < quiet_since + ENDLESS_SECS:
                return False
            quiet_since = time.monotonic()
            return True

        return over

    # The server

    def _serve(self, block: Block) -> None:
        """A reader has one server: the one that the page starts, or else one of our own."""
        running = self._shell.servers()
        alone = any(command in block.code for command in ALONE)
        if not running and not alone and self._served:
            self._shell.run(OWN_SERVER)
        elif running and alone:
            ended = "; ".join(f"kill {process}; wait {process} || true" for process in running)
            self._shell.run(ended)
