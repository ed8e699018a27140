"""The terminal of somebody who follows a page: one shell from its first block to its last.

What it starts in the background goes on between blocks, and ends with it. A server there that ends by itself has
failed, and what a block does next may wait for it: so the block fails at once.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

PATIENCE_SECS = 240.0  # a session of Spark on a machine that has other work
POLL_SECS = 0.02
SERVE = "everbrook serve"
SERVERS = (SERVE, "everbrook up")
ENDS_SERVERS = ("kill", "everbrook down")

# The shell says on a pipe of its own that a block is through, and which command of it failed first. Pages sleep to wait
# for a server to start; on a busy machine that takes longer.
PRELUDE = """\
set -o pipefail -o errtrace
trap '(( $? == 130 )) || failed=${failed:-$BASH_COMMAND}' ERR  # 130: interrupted, as some blocks are to be
trap : INT
sleep() {
  command sleep "$@"
  for _ in {1..100}; do
    if curl --silent --output /dev/null --max-time 2 "$EVERBROOK_URL/healthz"; then break; fi
    command sleep 0.05
  done
}
"""
THROUGH = "through"


class Unfinished(AssertionError):
    """A block of shell did not come to its end, or its server did."""


class Ran(Struct, frozen=True):
    """What a block printed, and the first command of it that failed."""

    output: str
    errors: str
    failed: str


class Shell:
    """Bash in a folder. Its outputs are files, so that nobody waits for what was left in the background."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._output, self._errors = folder / ".output", folder / ".errors"
        self._signals, written = os.pipe()
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                ["bash", "--norc", "--noprofile"],
                cwd=folder,
                env=environment | {"THROUGH": str(written)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                pass_fds=[written],
                text=True,
            )
        os.close(written)
        self._write(PRELUDE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        os.close(self._signals)

    def run(self, script: str, interrupt_when: Callable[[str], bool] | None = None) -> Ran:
        """Run a block. If it never ends, interrupt its commands as soon as a claim about its output holds."""
        before, outputs = self.children(), self._sizes()
        servers, ends_servers = self.servers(), any(command in script for command in ENDS_SERVERS)
        (self._folder / ".script").write_text(script, encoding="utf-8")
        self._write(f'failed=; . ./.script; echo "{THROUGH} $failed" >&$THROUGH\n')
        deadline = time.monotonic() + PATIENCE_SECS
        while not select.select([self._signals], [], [], POLL_SECS)[0]:
            servers |= self.servers()
            if servers - self.children() and not ends_servers:
                self._interrupt(self.children() - before)
                raise Unfinished(f"a server ended by itself, and this was printed: {self._printed(outputs)}")
            if interrupt_when and interrupt_when(self._printed(outputs)[0]):
                self._interrupt(self.children() - before)
            elif time.monotonic() > deadline:
                self._interrupt(self.children() - before)
                raise Unfinished(f"not finished after {PATIENCE_SECS:.0f} s, having printed: {self._printed(outputs)}")
        said = os.read(self._signals, 65536).decode()
        return Ran(*self._printed(outputs), said.removeprefix(THROUGH).strip())

    def children(self) -> set[int]:
        """The processes that the shell has started and that run."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(pid) for pid in listed.split()}

    def servers(self) -> set[int]:
        """The servers among its children that run in the background: Bash has given those no input."""
        return {child for child in self.children() if _is_background_server(Path("/proc", str(child)))}

    def _interrupt(self, processes: set[int]) -> None:
        for process in processes:
            os.kill(process, signal.SIGINT)
        time.sleep(POLL_SECS)

    def _write(self, script: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(script)
        self.process.stdin.flush()

    def _sizes(self) -> tuple[int, int]:
        return self._output.stat().st_size, self._errors.stat().st_size

    def _printed(self, since: tuple[int, int]) -> tuple[str, str]:
        output, errors = self._output.read_bytes()[since[0] :], self._errors.read_bytes()[since[1] :]
        return output.decode(errors="replace"), errors.decode(errors="replace")


def _is_background_server(process: Path) -> bool:
    try:
        command = (process / "cmdline").read_text().replace("\0", " ")
        return any(server in command for server in SERVERS) and (process / "fd/0").readlink() == Path(os.devnull)
    except OSError:  # it has ended
        return False
