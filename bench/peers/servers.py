"""Who takes part: the servers of the table that can run here, and any other one by its command."""

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from bench.cargo import CargoUnavailable
from bench.cases import DURABLE_PEER_CASES, PEER_CASES
from bench.processes import free_port
from bench.subjects import Subject
from tools.node import NodeUnavailable


@dataclass(frozen=True, slots=True)
class Group:
    """Servers that promise the same, and the cases they are put under. The others are compared with the first."""

    name: str
    servers: tuple[Subject, ...]
    cases: tuple[str, ...]


class CommandNotFound(Exception):
    """A server that was given by its command has no program to run."""


def server_by_command(text: str) -> Subject:
    """Read `NAME=COMMAND`, with `{port}` and `{folder}` in the command; one with a folder is taken for durable."""
    name, separator, command = text.partition("=")
    words = shlex.split(command)
    if not (name and separator and words and "{port}" in command):
        raise ValueError(f"must be NAME=COMMAND with {{port}} in the command, got {text!r}")

    def found(_port: int) -> list[str]:
        if shutil.which(words[0]) is None:
            raise CommandNotFound(f"there is no program {words[0]}")
        return list(words)

    durable = "{folder}" in command
    return Subject(name=name, command=found, folder_arguments=(lambda _: []) if durable else None, durable=durable)


def available(servers: Sequence[Subject]) -> tuple[list[Subject], dict[str, str]]:
    """Install what is missing; return the servers that can run here, and why the others can't."""
    able: list[Subject] = []
    skipped: dict[str, str] = {}
    for server in servers:
        try:
            server.command(free_port())  # a command installs its program
        except (CargoUnavailable, NodeUnavailable, CommandNotFound) as error:
            skipped[server.name] = str(error)
        else:
            able.append(server)
    return able, skipped


def groups_of(servers: Sequence[Subject], cases: Sequence[str] | None) -> list[Group]:
    """Put servers that promise the same into one group, with the cases that were asked for or those of the group."""
    volatile = tuple(server for server in servers if not server.durable)
    durable = tuple(server for server in servers if server.durable)
    groups = [
        Group("in memory", volatile, tuple(cases or PEER_CASES)),
        Group("on disk", durable, tuple(cases or DURABLE_PEER_CASES)),
    ]
    return [group for group in groups if group.servers]
