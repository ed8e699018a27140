"""The ``everbrook`` command. Whatever goes wrong is one line on standard error, and an exit code (`exits`)."""

from collections.abc import Sequence

import click

from everbrook.cli.commands import Commands
from everbrook.cli.connection import server_options
from everbrook.cli.exits import INTERRUPTED, OUTPUT_GONE, WRONG_USE, explain
from everbrook.cli.output import PROGRAM, complain


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="everbrook", message="%(prog)s %(version)s")
@server_options
def everbrook() -> None:
    """Durable Streams: append-only logs at a URL that every reader can resume."""


def main(args: Sequence[str] | None = None, command: click.Command = everbrook) -> int:
    """Run a command line and give its exit code."""
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
