"""``everbrook serve``: load the settings, set up logging, run the server until it is told to stop."""

import logging
import os
from pathlib import Path

import click

from everbrook.cli.flags import layer_flags, read_flags, setting_flags
from everbrook.settings import load_layers

logger = logging.getLogger(__name__)


def occupy_standard_streams() -> None:
    """Fill standard descriptors that were closed, so that no file of ours gets their numbers and their output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


@click.command()
@layer_flags
@setting_flags
@click.option("--check", is_flag=True, hidden=True, help="Only prove that a server would start.")
def serve(profile: str | None, config_file: Path | None, *, check: bool, **flags: str | None) -> None:
    """Run the server until SIGINT or SIGTERM.

    Settings come from the built-in defaults, config/default.toml, everbrook.toml or [tool.everbrook] in
    pyproject.toml, the profile, config/local.toml, the --config file, the environment, and these flags; a later
    one wins.
    """
    occupy_standard_streams()
    layered = load_layers(profile=profile, config_file=config_file, flags=read_flags(flags))
    # Imported here: the other commands and --help need neither an event loop nor logging.
    from everbrook.cli.logs import configure_logging  # noqa: PLC0415
    from everbrook.server.restart import command_line  # noqa: PLC0415
    from everbrook.server.serve import check_start, run  # noqa: PLC0415
    from everbrook.storage.manifest import StoreError  # noqa: PLC0415

    configure_logging(layered.log_filter, layered.settings.log.format)
    for remark in layered.remarks:
        logger.warning("%s", remark)
    try:
        if check:
            check_start(layered.settings)
        else:
            run(layered.settings, command_line())
    except (OSError, StoreError) as error:
        # The address is taken, forbidden or unknown, or the data folder can't be used: the user's to solve, and a
        # traceback does not help.
        raise click.ClickException(str(error)) from error
