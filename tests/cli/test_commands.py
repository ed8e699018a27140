"""Commands are loaded when they are run: what help says of them is what they say themselves, and costs nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from everbrook.cli.main import ENTRIES, everbrook
from tests.cli.conftest import Run
from tests.kit.server_process import EVERBROOK

HEAVY = {"asyncio", "httpx2", "httptools", "lmdb", "msgspec", "rich", "uvloop", "ssl", "email", "everbrook.settings"}


def every_line(command: click.Command, line: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each command, and each command below it, as it is typed."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_line(below, (*line, name))
    if line:
        yield line


def modules_of(*args: str) -> set[str]:
    """What is loaded once a command line has run."""
    code = f"import sys; from everbrook.cli.main import main; main({args!r}); print('modules', *sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    return set(ran.stdout.rpartition("modules ")[2].split())


@pytest.mark.parametrize("name", ENTRIES)
def test_every_name_leads_to_its_command(name: str) -> None:
    command = everbrook.get_command(click.Context(everbrook), name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(limit=200)


@pytest.mark.parametrize("line", [("--help",), ("append", "--help"), ("bucket", "--help"), ("sub", "work", "--help")])
def test_help_loads_nothing_heavy(line: tuple[str, ...]) -> None:
    modules = modules_of(*line)
    assert "click" in modules
    assert not modules & HEAVY


def test_help_loads_no_command() -> None:
    loaded = {name for name in modules_of("--help") if name.startswith("everbrook.cli.")}
    own = {"main", "connection", "exits", "terminal", "terminal.output"}
    assert loaded == {f"everbrook.cli.{name}" for name in own}


UNUSED = {
    *("asyncio", "importlib.metadata", "httpcore2", "httpx2", "httptools", "lmdb", "rich", "typing_extensions"),
    *("urllib.request", "uvloop", "everbrook.engine", "everbrook.server", "everbrook.settings", "everbrook.storage"),
}
"""What no command needs that asks a server over plain HTTP; each takes longer to load than the server to answer."""
READERS = {"everbrook.client._sync.reader", "everbrook.protocol.sse"}
PARTS = {"everbrook.client._sync.producer", "everbrook.client._sync.snapshots", "everbrook.protocol.state"}


@pytest.mark.parametrize(
    "line, unused",
    [
        ("create {}", UNUSED | READERS | PARTS),
        ("head s", UNUSED | READERS | PARTS),
        ("append s 1", UNUSED | READERS | PARTS),
        ("close {}", UNUSED | READERS | PARTS),
        ("rm {}", UNUSED | READERS | PARTS),
        ("ls", UNUSED | READERS | PARTS),
        ("read s", UNUSED | PARTS),
        ("tail -n 2 s", UNUSED | PARTS),
        ("head nothing", UNUSED | READERS | PARTS),
    ],
)
def test_a_command_that_asks_a_server_loads_only_what_it_uses(
    line: str, unused: set[str], run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)
    run("create", "s")
    run("create", "{}")
    modules = modules_of(*line.split(), "--url", url)
    assert "everbrook.client._sync.stream" in modules
    assert not modules & unused


def test_requests_go_through_a_proxy_if_one_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert "httpcore2" in modules_of("head", "s", "--url", "http://127.0.0.1:1")


@pytest.mark.parametrize("line", list(every_line(everbrook)), ids=" ".join)
def test_every_command_has_help(run: Run, line: tuple[str, ...]) -> None:
    ran = run(*line, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: everbrook {' '.join(line)} ")


@pytest.mark.parametrize(
    "line", [line for line in every_line(everbrook) if line[0] not in {"serve", "completion"}], ids=" ".join
)
def test_every_command_prints_json_if_asked(line: tuple[str, ...]) -> None:
    command: click.Command | None = everbrook
    for name in line:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert isinstance(command, click.Group) or "--json" in options


@pytest.mark.parametrize("line", [(), ("sub",), ("bucket",), ("snapshot",)])
def test_a_group_without_a_command_says_which_there_are(run: Run, line: tuple[str, ...]) -> None:
    ran = run(*line)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage: " in ran.err


def test_a_misspelt_command_is_guessed(run: Run) -> None:
    assert "Did you mean 'append'?" in run("apend").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_a_shell(run: Run, shell: str) -> None:
    ran = run("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert f"_EVERBROOK_COMPLETE={shell}_complete" in ran.out


def test_bash_completes_commands_and_options() -> None:
    environment = {"_EVERBROOK_COMPLETE": "bash_complete", "COMP_WORDS": "everbrook boot", "COMP_CWORD": "1"}
    ran = subprocess.run([EVERBROOK], env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert ran.stdout == "plain,bootstrap\n"
