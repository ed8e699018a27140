"""The soak of a load: readers and producers that come and go, a server that is left alone and then restarts in place.

Every reader must get every message once and in order; nobody's connection may break that nobody has broken; no answer
may be a refusal but those for too much load; and the server may take no more memory and files at the end.
"""

import asyncio
import json
import signal
import sys
import time
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import Any

import uvloop

from everbrook.server.restart import OVER, read_report
from soak.client import Client
from soak.ledger import PromiseBroken
from soak.load.options import LoadOptions, ReaderOptions, raise_open_files, stream_path
from soak.load.producing import Crowd
from soak.load.watching import Sample, growth, look
from soak.progress import say
from soak.server import Server

CONTROLS = ("stop", "careless", "leak")
LOOK_SECS = 1.0
SAY_SECS = 15.0
RESTART_SECS = 90.0
CONNECTED_SECS = 120.0
WARM_UP = 1 / 3


class Load:
    """One run."""

    def __init__(self, server: Server, options: LoadOptions, seed: int) -> None:
        self.server = server
        self.options = options
        self._seed = seed
        self.crowd = Crowd(server.port, options, seed)
        self.told: dict[str, Any] = {}
        self.samples: list[Sample] = []
        self.generations: list[Sample] = []
        self.restart_secs: list[float] = []
        self._readers: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Run all phases, and raise if a promise was broken."""
        hearing = await self._begin_readers()
        try:
            await self._until_connected()
            self.crowd.begin()
            await self._calm()
            await self._restarts()
            await self.crowd.end()
            await self._finish(hearing)
        finally:
            hearing.cancel()
            if self._readers is not None and self._readers.returncode is None:
                self._readers.kill()
                await self._readers.wait()
        self._judge()

    async def _begin_readers(self) -> asyncio.Task[None]:
        chosen = self.options
        told = ReaderOptions(self.server.port, chosen.readers, chosen.streams, chosen.drops_per_sec, self._seed)
        self._readers = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "soak.load.reading",
            *map(str, astuple(told)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return asyncio.ensure_future(self._hear(self._readers))

    async def _hear(self, readers: asyncio.subprocess.Process) -> None:
        if readers.stdout is None:
            return
        async for line in readers.stdout:
            self.told = json.loads(line)

    async def _until_connected(self) -> None:
        begin = time.monotonic()
        while self.told.get("connected", 0) < self.options.readers - self.options.drops_per_sec:
            if time.monotonic() > begin + CONNECTED_SECS:
                raise PromiseBroken(
                    f"only {self.told.get('connected')} readers are connected after {CONNECTED_SECS:g} s"
                )
            await asyncio.sleep(0.1)
        say(f"load: {self.told['connected']:,} readers connected in {time.monotonic() - begin:.1f} s")

    async def _calm(self) -> None:
        """Leave the server alone, and look at what it takes."""
        end = time.monotonic() + self.options.secs * self.options.calm
        said = time.monotonic()
        while time.monotonic() < end:
            await asyncio.sleep(LOOK_SECS)
            self.samples.append(look(self.server.pid))
            if time.monotonic() > said + SAY_SECS:
                said = time.monotonic()
                self._say()

    async def _restarts(self) -> None:
        count = self.options.restarts
        gap_secs = self.options.secs * (1 - self.options.calm) / max(1, count)
        for number in range(1, count + 1):
            begin = time.monotonic()
            await (self._stop_and_start() if self.options.control == "stop" else self._restart())
            self.restart_secs.append(time.monotonic() - begin)
            await asyncio.sleep(max(0.0, begin + gap_secs - time.monotonic()))
            self.generations.append(look(self.server.pid))
            say(f"load: restart {number} of {count} took {self.restart_secs[-1]:.1f} s")
            self._say()

    async def _restart(self) -> None:
        """Restart in place, and wait until the next image says that it is ready."""
        report = self.server.folder / "restart.json"
        before, deadline = read_report(report).attempt, time.monotonic() + RESTART_SECS
        self.server.send(signal.SIGUSR2)
        while time.monotonic() < deadline:
            found = read_report(report)
            if found.attempt > before and found.phase in OVER:
                if found.phase != "ready":
                    raise PromiseBroken(f"the server did not restart: {found.message}")
                return
            await asyncio.sleep(0.02)
        raise PromiseBroken(f"the server did not restart within {RESTART_SECS:g} s:\n{self.server.output}")

    async def _stop_and_start(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.server.stop)
        await loop.run_in_executor(None, self.server.start)

    async def _finish(self, hearing: asyncio.Task[None]) -> None:
        """Tell the readers how much was sent, and wait for their verdict."""
        if self._readers is None or self._readers.stdin is None:
            return
        self._readers.stdin.write(json.dumps(self.crowd.acknowledged).encode() + b"\n")
        await self._readers.stdin.drain()
        await hearing

    def _say(self) -> None:
        last = look(self.server.pid)
        say(
            f"load: {sum(self.crowd.acknowledged):,} appends, {self.told['messages']:,} deliveries, "
            f"{self.told['connected']:,} readers, {self.told['dropped']:,} dropped; "
            f"memory {last.memory_bytes / 2**20:.0f} MB, {last.files:,} files"
        )

    def _judge(self) -> None:
        self._tell_figures()
        words = [*self.crowd.findings.words, *self.told.get("words", ())]
        if words:
            counts = Counter(self.told.get("findings", {})) + self.crowd.findings.counts
            raise PromiseBroken(f"{dict(counts)}: {'; '.join(words)}")
        if not self.told.get("over") or self.told["behind"]:
            raise PromiseBroken(f"{self.told.get('behind')} readers never got everything")
        for fault in (growth(self._warm()).judge(), growth(self.generations).judge() if self.generations[1:] else ""):
            if fault:
                raise PromiseBroken(fault)

    def _warm(self) -> list[Sample]:
        return self.samples[int(len(self.samples) * WARM_UP) :]

    def _tell_figures(self) -> None:
        latencies = sorted(self.crowd.latencies_ms)
        refusals = Counter({int(status): count for status, count in self.told.get("refusals", {}).items()})
        say(f"load: left alone, after warming up: {growth(self._warm())}")
        if self.generations[1:]:
            say(f"load: from restart to restart: {growth(self.generations)}")
        say(
            f"load: {len(latencies):,} appends acknowledged, p50 {latencies[len(latencies) // 2]:.1f} ms, "
            f"p99 {latencies[len(latencies) * 99 // 100]:.1f} ms, slowest {latencies[-1]:.0f} ms; "
            f"{self.crowd.broken} broken in the midst; refused as documented: {dict(refusals + self.crowd.refusals)}"
        )


def soak_load(folder: Path, options: LoadOptions, seed: int) -> str:
    """Run the load on a server of its own. Gives what has come of it; raises `PromiseBroken`."""
    raise_open_files()
    under = [sys.executable, "-m", "soak.load.leaking"] if options.control == "leak" else []
    settings = {"DS_LIMITS__MAX_CONNECTIONS": str(options.readers + options.producers + 1_000)}
    server = Server("acid", folder, under=under, settings=settings)
    with server:
        client = Client(server.port)
        for number in range(options.streams):
            client.expect({200, 201}, "PUT", stream_path(number), content_type="text/plain")
        client.close()
        told = _run(server, options, seed)
        if code := server.stop():
            raise PromiseBroken(f"the server ended with {code}:\n{server.output}")
    if damage := server.check():
        raise PromiseBroken(f"a check finds damage:\n{damage}")
    return told


def _run(server: Server, options: LoadOptions, seed: int) -> str:
    async def run() -> str:
        load = Load(server, options, Random(seed).getrandbits(32))  # noqa: S311 - it must replay
        await load.run()
        return (
            f"{sum(load.crowd.acknowledged):,} messages of {options.producers} producers, each once and in order to "
            f"all of its readers, {options.readers:,} in all ({load.told['messages']:,} deliveries); "
            f"{load.told['dropped']:,} connections of readers dropped, "
            f"{len(load.restart_secs)} restarts in place, the slowest {max(load.restart_secs, default=0):.1f} s; "
            f"no connection broke and no request failed"
        )

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())
