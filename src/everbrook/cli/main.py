"""The ``everbrook`` command. Whatever a user got wrong is one line on standard error and exit code 2."""

from collections.abc import Sequence

import click

from everbrook.cli.check import check
from everbrook.cli.config import config
from everbrook.cli.keys import keys
from everbrook.cli.serve import serve
from everbrook.settings import SettingsError

PROGRAM = "everbrook"
WRONG_USE = 2
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="everbrook", message="%(prog)s %(version)s")
def everbrook() -> None:
    """Durable Streams: append-only logs at a URL that every reader can resume."""


everbrook.add_command(check)
everbrook.add_command(config)
everbrook.add_command(keys)
everbrook.add_command(serve)


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and give its exit code."""
    try:
        code = everbrook.main(args=args, prog_name=PROGRAM, standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_USE
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except SettingsError as error:
        return _complain(str(error), WRONG_USE)
    return code or 0


def _complain(message: str, code: int) -> int:
    click.echo(f"{PROGRAM}: {' '.join(message.split())}", err=True)
    return code
