"""``everbrook serve`` and ``everbrook restart``: run the server, and replace a running one in place."""

import logging
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everbrook.cli.exits import UNCERTAIN
from everbrook.cli.store_process import ask, find_holder, is_alive, store_flags, store_settings
from everbrook.cli.terminal.flags import layer_flags, read_flags, setting_flags
from everbrook.cli.terminal.output import complain, json_option, print_json
from everbrook.settings import load_layers

if TYPE_CHECKING:
    from everbrook.server.restart import Report

logger = logging.getLogger(__name__)
LOOK_SECS = 0.05
INSTEAD = "a restart would lose every stream; stop the server and start it again"


def occupy_standard_streams() -> None:
    """Open closed standard descriptors, so that no file of the server gets their numbers, and with them its output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


@click.command()
@layer_flags
@setting_flags
@click.option("--check", is_flag=True, hidden=True, help="Only check that a server would start.")
def serve(profile: str | None, config_file: Path | None, *, check: bool, **flags: str | None) -> None:
    """Run the server until SIGINT or SIGTERM.

    Settings come from the built-in defaults, config/default.toml, everbrook.toml or [tool.everbrook] in
    pyproject.toml, the profile, config/local.toml, the --config file, the environment, and these flags; a later
    one wins.
    """
    occupy_standard_streams()
    layered = load_layers(profile=profile, config_file=config_file, flags=read_flags(flags))
    # Imported here: the other commands and --help need neither an event loop nor logging.
    from everbrook.cli.logs import configure_logging
    from everbrook.server.restart import command_line
    from everbrook.server.serve import check_start, run
    from everbrook.storage.manifest import StoreError

    configure_logging(layered.log_filter, layered.settings.log.format)
    for remark in layered.remarks:
        logger.warning("%s", remark)
    try:
        if check:
            check_start(layered.settings)
        else:
            run(layered.settings, command_line())
    except (OSError, StoreError) as error:
        # The address is taken, forbidden or unknown, or the data folder can't be used: the user has to solve that, and
        # a traceback does not help.
        raise click.ClickException(str(error)) from error


@click.command()
@store_flags
@json_option
@click.option(
    "--timeout",
    "timeout_secs",
    metavar="SECONDS",
    default=120.0,
    show_default=True,
    help="How long to wait until the server is ready.",
)
def restart(
    profile: str | None, config_file: Path | None, *, as_json: bool, timeout_secs: float, **flags: str | None
) -> int:
    """Restart the server of the store that the settings name, in place, and wait until it is ready.

    No connection is refused and no request fails: requests wait meanwhile. The server first checks that its next
    version starts; if not, it continues as it is. Exit code 1: it continues, or has ended, and the message says why.
    Exit code 5: it has not reported in time.
    """
    from everbrook.server.restart import read_report, report_path

    settings = store_settings(profile, config_file, flags, INSTEAD)
    process = find_holder(settings)
    if process is None:
        raise click.ClickException("no server uses the store: start one with `everbrook serve`")
    path, began = report_path(settings), time.monotonic()
    before = read_report(path).attempt
    ask(process, signal.SIGUSR2, "restarts")
    report = _await_end(path, before, process, timeout_secs)
    took_secs = time.monotonic() - began
    if report is None:
        return complain(f"process {process} has not reported in time whether it restarted: see its log", UNCERTAIN)
    if report.phase != "ready":
        raise click.ClickException(report.message)
    if as_json:
        print_json({"process": process, "took_secs": round(took_secs, 3)})
    else:
        click.echo(f"process {process} has restarted in place, and was ready after {took_secs:.1f} s")
    return 0


def _await_end(path: Path, before: int, process: int, timeout_secs: float) -> "Report | None":
    """Wait for the report of an attempt after `before` that is over, or for the end of the process."""
    from everbrook.server.restart import OVER, Report, read_report

    deadline = time.monotonic() + timeout_secs
    while time.monotonic() < deadline:
        alive = is_alive(process)
        report = read_report(path)
        if report.attempt > before and report.phase in OVER:
            return report
        if not alive:
            return Report(phase="failed", message=f"process {process} has ended; its log says why")
        time.sleep(LOOK_SECS)
    return None
