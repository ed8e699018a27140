"""``everbrook up`` and ``everbrook down``: the whole stack on this machine, in one process and its children."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everbrook.cli.terminal.output import PROGRAM, Command, json_option, note, print_json
from everbrook.stack.envoy import settings_for_envoy
from everbrook.stack.errors import ProgramMissing
from everbrook.stack.parts import PARTS, Part, State, choose
from everbrook.stack.postgres import HOST
from everbrook.stack.site import (
    ENVOY_ADMIN_PORT,
    ENVOY_PORT,
    INTERVAL_SECS,
    POSTGRES_PORT,
    POSTGRES_URL,
    SERVER_PORT,
    SERVER_URL,
    STACK_DIR,
    STACK_DIR_VARIABLE,
    Site,
    around_proxies,
    holder,
    postgres_url,
    server_url,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_STOP_TIMEOUT_SECS = 120.0
_NAMES = ", ".join(part.name for part in PARTS)
_PORT_OPTIONS = (
    ("server", "--port"),
    ("postgres", "--postgres-port"),
    ("envoy", "--envoy-port"),
    ("envoy", "--envoy-admin-port"),
)
_COLOURS = {State.READY: "green", State.FAILING: "red", State.RESTARTING: "yellow", State.STOPPED: "bright_black"}
_UNDER_WAY = frozenset({State.STARTING, State.RESTARTING, State.STOPPING})


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=STACK_DIR,
    envvar=STACK_DIR_VARIABLE,
    show_default=True,
    show_envvar=True,
    metavar="FOLDER",
    help="The folder for the data of all parts.",
)


def _port(name: str, default: int, variable: str, what: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        type=click.IntRange(0, 65535),
        default=default,
        envvar=variable,
        show_default=True,
        show_envvar=True,
        metavar="PORT",
        help=f"The port of {what}; 0 takes a free one.",
    )


@click.command()
@click.option("--with", "added", multiple=True, metavar="PART", help=f"Start this part too. Parts: {_NAMES}.")
@click.option("--without", "left_out", multiple=True, metavar="PART", help="Do not start this part.")
@data_dir_option
@click.option("--host", default="127.0.0.1", envvar="DS_SERVER__HOST", show_envvar=True, help="The server's address.")
@_port("--port", SERVER_PORT, "DS_SERVER__PORT", "the server")
@_port("--postgres-port", POSTGRES_PORT, "EVERBROOK_POSTGRES_PORT", "Postgres")
@click.option("--envoy-host", default=HOST, envvar="EVERBROOK_ENVOY_HOST", show_envvar=True, help="Envoy's address.")
@_port("--envoy-port", ENVOY_PORT, "EVERBROOK_ENVOY_PORT", "Envoy")
@_port("--envoy-admin-port", ENVOY_ADMIN_PORT, "EVERBROOK_ENVOY_ADMIN_PORT", "the dashboard of Envoy")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    default=INTERVAL_SECS,
    envvar="EVERBROOK_HEARTBEAT_SECS",
    show_default=True,
    show_envvar=True,
    metavar="SECONDS",
    help="Time between two heartbeats.",
)
@json_option
def up(  # noqa: PLR0913 - an option each
    added: tuple[str, ...],
    left_out: tuple[str, ...],
    data_dir: Path,
    *,
    host: str,
    port: int,
    postgres_port: int,
    envoy_host: str,
    envoy_port: int,
    envoy_admin_port: int,
    interval: float,
    as_json: bool,
) -> None:
    """Start the whole stack, and keep it running until SIGINT or SIGTERM.

    The parts are the server, Postgres, the pipeline between them, a heartbeat, and Envoy in front of the server, which
    requires a token. The output has the URL of each. A part that ends is started again. All data is in one folder, and
    the next start continues with it. A part that is left out may run elsewhere: at DS_SERVER_URL or POSTGRES_URL.
    """
    _require_packages()
    from everbrook.stack.run import require_places, run  # only after the check that its packages are installed

    os.environ.update(around_proxies(os.environ))
    parts = choose(added, left_out)
    require_places(parts, os.environ)
    chosen = {part.name for part in parts}
    ports = _ports(chosen, port, postgres_port, envoy_port, envoy_admin_port)
    edge = settings_for_envoy(os.environ, chosen)
    site = _site(parts, data_dir, (host, envoy_host), ports, interval)._replace(edge=edge)
    with lines_for(len(parts), as_json=as_json) as lines:
        run(site, parts, lines.report)


@click.command()
@data_dir_option
@json_option
def down(data_dir: Path, *, as_json: bool) -> None:
    """Stop the stack that runs from a folder, as Ctrl-C would, and wait until it has ended."""
    process = holder(data_dir)
    if process is None:
        note(f"no stack runs from {data_dir}")
    else:
        _end(process, data_dir)
    if as_json:
        print_json({"data_dir": str(data_dir), "stopped": process})


def _end(process: int, data_dir: Path) -> None:
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_SECS
    while holder(data_dir) == process:
        if time.monotonic() > deadline:
            raise click.ClickException(f"process {process} still runs {_STOP_TIMEOUT_SECS:g} s after the signal to end")
        time.sleep(0.1)


def _ports(chosen: set[str], *given: int) -> tuple[int, ...]:
    """Give each part a port of its own."""
    options: dict[int, str] = {}
    for (part, option), port in zip(_PORT_OPTIONS, given, strict=True):
        if part in chosen and port:
            if port in options:
                raise click.UsageError(f"{options[port]} and {option} are both {port}: each needs a port of its own")
            options[port] = option
    return tuple(port or _free_port() for port in given)


def _site(
    parts: list[type[Part]], data_dir: Path, hosts: tuple[str, str], ports: tuple[int, ...], interval_secs: float
) -> Site:
    """Describe the site: options have the addresses of the stack's parts, variables those of others."""
    from everbrook.stack.run import PLACES, outside

    chosen = {part.name for part in parts}
    for name, place in PLACES.items():
        if name in chosen and os.environ.get(place.variable):
            note(f"{place.variable} is set, but the stack starts its own {name}: --without {name} uses the other")
    elsewhere = outside(parts)
    return Site(
        data_dir=data_dir.absolute(),
        server_url=os.environ[SERVER_URL].rstrip("/") if "server" in elsewhere else server_url(hosts[0], ports[0]),
        postgres_url=os.environ[POSTGRES_URL] if "postgres" in elsewhere else postgres_url(ports[1]),
        host=hosts[0],
        server_port=ports[0],
        postgres_port=ports[1],
        envoy_host=hosts[1],
        envoy_port=ports[2],
        envoy_admin_port=ports[3],
        interval_secs=interval_secs,
        environment=tuple(os.environ.items()),
    )


def _require_packages() -> None:
    missing = [package for package in ("psutil", "psycopg") if find_spec(package) is None]
    if missing:
        raise ProgramMissing(f"{' and '.join(missing)} can't be found: pip install 'everbrook[stack]' installs it")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Lines:
    """Prints lines for a pipe or a file. Once every part is ready, it prints how long that took."""

    def __init__(self, parts: int) -> None:
        self._awaited = parts
        self._began = time.monotonic()
        self._ready: set[str] = set()

    def report(self, part: Part, state: State, reason: str) -> None:
        """Print a change of a state."""
        if state in _COLOURS:
            self.line(part, state)
        if reason:
            self.note(f"{part.name}: {reason}")
        if state is State.READY and part.name not in self._ready:
            self._ready.add(part.name)
            if part.hint:
                self.note(part.hint)
            if len(self._ready) == self._awaited:
                self.note(f"everything is up after {time.monotonic() - self._began:.1f} s; Ctrl-C stops it")

    def line(self, part: Part, state: State) -> None:
        """Print the state of a part, and its URL."""
        click.echo(f"{part.name:<10} {state:<10} {part.url}")

    def note(self, words: str) -> None:
        """Print a note."""
        note(words)


class JsonLines(Lines):
    """Prints JSON lines, for programs."""

    def line(self, part: Part, state: State) -> None:
        print_json({"part": part.name, "url": part.url, "state": str(state)})


class TerminalLines(Lines):
    """Prints lines in colour, and below them the parts that are starting or stopping: one console prints both."""

    def __init__(self, parts: int, console: "Console", status: "Status") -> None:
        super().__init__(parts)
        self._console, self._status = console, status
        self._under_way: dict[str, State] = {}

    def report(self, part: Part, state: State, reason: str) -> None:
        """Print a change of a state, and show which parts are starting or stopping."""
        super().report(part, state, reason)
        self._under_way.pop(part.name, None)
        if state in _UNDER_WAY:
            self._under_way[part.name] = state
        if self._under_way:
            self._status.update(", ".join(f"{name} is {state}" for name, state in self._under_way.items()))
            self._status.start()
        else:
            self._status.stop()

    def line(self, part: Part, state: State) -> None:
        """Print a line above the status."""
        from rich.text import Text  # as below

        words = Text.assemble(f"{part.name:<10} ", (f"{state:<10}", _COLOURS[state]), f" {part.url}")
        self._console.print(words, soft_wrap=True)

    def note(self, words: str) -> None:
        """Print a note above the status."""
        self._console.print(f"{PROGRAM}: {words}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def lines_for(parts: int, *, as_json: bool) -> Iterator[Lines]:
    """Choose the output: JSON, plain lines, or a terminal's."""
    if as_json or not sys.stdout.isatty():
        yield JsonLines(parts) if as_json else Lines(parts)
        return
    from rich.console import Console  # only a terminal needs it

    console = Console()
    with console.status("") as status:
        yield TerminalLines(parts, console, status)
