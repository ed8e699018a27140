"""The ``everbrook`` command: the table of its subcommands, and the handling of their errors.

A command is imported when it is run, so that help and short commands start fast; help lists commands by the summaries
in the table. An error is one line on standard error and an exit code (`exits`).
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import click

from everbrook.cli.connection import server_options
from everbrook.cli.exits import INTERRUPTED, OUTPUT_GONE, WRONG_USE, explain
from everbrook.cli.terminal.output import PROGRAM, complain


class Entry(NamedTuple):
    """The place of a command (`module:name` below `cli/commands/`), and its line in the list of commands."""

    place: str
    summary: str


SECTIONS = {
    "Streams": {
        "create": Entry("streams:create", "Create a stream, unless it exists with the same configuration."),
        "append": Entry("append:append", "Append messages: arguments, files, or standard input."),
        "read": Entry("read:read", "Print the messages of a stream."),
        "tail": Entry("read:tail", "Print the last messages of a stream, and follow it with -f."),
        "head": Entry("streams:head", "Print the metadata of a stream."),
        "close": Entry("streams:close", "Close a stream: nothing can be appended any more."),
        "rm": Entry("streams:rm", "Delete streams."),
        "fork": Entry("streams:fork", "Make a new stream that begins with the messages of another."),
        "ls": Entry("streams:ls", "List streams."),
    },
    "Around streams": {
        "bucket": Entry("bucket:bucket", "Create, list, show and delete buckets."),
        "snapshot": Entry("snapshot:snapshot", "Publish, get and delete snapshots."),
        "bootstrap": Entry("snapshot:bootstrap", "Print the snapshot of a stream and every message after it."),
        "sub": Entry("sub:sub", "Create, show and delete subscriptions, and run workers for them."),
        "export": Entry("export:export", "Write streams to a file of JSON lines."),
        "import": Entry("import_:import_", "Create the streams of a file that export has written."),
    },
    "Pipelines": {
        "pipeline": Entry("pipeline:pipeline", "Run and monitor jobs between streams and tables."),
    },
    "Servers": {
        "serve": Entry("serve:serve", "Run the server until SIGINT or SIGTERM."),
        "restart": Entry("serve:restart", "Restart a running server in place: no connection is refused."),
        "up": Entry("up:up", "Run the whole stack: server, Postgres, the pipeline between them, a heartbeat."),
        "down": Entry("up:down", "Stop the stack."),
        "check": Entry("check:check", "Read every byte of a store, and verify its checksums."),
        "repair": Entry("check:repair", "Show what a damaged store has lost, and repair the rest."),
        "backup": Entry("backup:backup", "Copy the store of a running server, or of a stopped one."),
        "restore": Entry("backup:restore", "Make a data folder from a backup."),
        "config": Entry("config:config", "Show the settings."),
        "token": Entry("token:token", "Print a token to try a server with, signed by a test key."),
        "apikey": Entry("auth:apikey", "Create, list and revoke API keys."),
        "sign": Entry("auth:sign", "Print a URL by which anybody can read a stream for a time."),
        "keys": Entry("keys:keys", "List or rotate the keys that sign webhooks."),
        "bench": Entry("bench:bench", "Measure the speed of a running server under load."),
        "doctor": Entry("doctor:doctor", "Check this machine, its settings and its server."),
        "completion": Entry("completion:completion", "Print the completion script of a shell."),
    },
}

ENTRIES = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class Commands(click.Group):
    """A group that imports a command only when it is run."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.commands = {name: click.Command(name, short_help=entry.summary) for name, entry in ENTRIES.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Keep the order of the sections."""
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return None
        if sys.stdout is None and cmd_name != "serve":
            raise click.ClickException("standard output is closed: there is nowhere to print to")
        module, name = entry.place.split(":")
        command: click.Command = getattr(import_module(f"everbrook.cli.commands.{module}"), name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Output is flushed here, so that a closed pipe is an error of the command."""
        result: object = super().invoke(ctx)
        if sys.stdout is not None:  # somebody may have closed it
            sys.stdout.flush()
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the sections of the help without importing the commands."""
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in section.items()], col_max=12)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="everbrook", message="%(prog)s %(version)s")
@server_options
def everbrook() -> None:
    """Durable Streams: append-only logs at a URL that every reader can resume."""


def main(args: Sequence[str] | None = None, command: click.Command = everbrook) -> int:
    """Run a command line and return its exit code."""
    try:
        code = command.main(args=args, prog_name=PROGRAM, standalone_mode=False)
    except SystemExit:
        # Click's way to say that a pipe was closed, and that nothing more will be flushed to it.
        return OUTPUT_GONE
    except click.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_USE
    except click.ClickException as error:
        return complain(error.format_message(), error.exit_code)
    except Exception as error:
        ending = explain(error)
        if ending is None:
            raise
        return complain(ending.message, ending.code)
    return code or 0
