"""``everbrook doctor``: checks this machine, its settings and its server, and prints a line for each check."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everbrook.cli.connection import given_context, given_url, server_options
from everbrook.cli.terminal.flags import FLAGS, layer_flags, read_flags
from everbrook.cli.terminal.output import json_option, print_json
from everbrook.client.environment import DEFAULT_URL

if TYPE_CHECKING:
    from everbrook.cli.commands.machine_checks import Finding
    from everbrook.settings import Settings


@click.command()
@layer_flags
@json_option
@server_options
def doctor(profile: str | None, config_file: Path | None, *, as_json: bool) -> int:
    """Check versions, clock, settings, disk, limits, port, certificate and policy of this machine, and the server at
    the URL, in a line each.

    Each line is ok, warn or fail, and says what to do. Exit code 1: a check failed. To check the disk, a small file is
    written to the data folder and removed.
    """
    failed = False
    for finding in _findings(profile, config_file):
        failed |= finding.state == "fail"
        if as_json:
            print_json({"check": finding.check, "state": finding.state, "message": finding.message})
        else:
            click.echo(f"{finding.state.ljust(4)}  {finding.check}: {finding.message}")
    return int(failed)


def _findings(profile: str | None, config_file: Path | None) -> "Iterator[Finding]":
    from everbrook.cli.commands import machine_checks, server_checks
    from everbrook.cli.commands.machine_checks import Finding

    yield machine_checks.check_versions()
    yield from machine_checks.check_programs()
    yield from machine_checks.check_clock()
    settings, finding = _load(profile, config_file)
    yield finding
    if settings is not None:
        checks: list[Callable[[Settings], Iterator[Finding]]] = [
            machine_checks.check_storage,
            machine_checks.check_damage,
            machine_checks.check_audit,
            machine_checks.check_limits,
            server_checks.check_port,
            server_checks.check_tls,
            server_checks.check_auth,
        ]
        for check in checks:
            try:
                yield from check(settings)
            except OSError as error:
                name = check.__name__.removeprefix("check_")
                yield Finding(name, "fail", f"{error.filename or name}: {error.strerror or error}")
    usual = settings.server.public_url or server_checks.near_url(settings) if settings else DEFAULT_URL
    yield from server_checks.check_server(given_url(usual), given_context())


def _load(profile: str | None, config_file: Path | None) -> "tuple[Settings | None, Finding]":
    from everbrook.cli.commands.machine_checks import Finding
    from everbrook.settings import SettingsError, load_layers
    from everbrook.settings.load import Layer

    unset: dict[str, str | None] = dict.fromkeys(flag.parameter for flag in FLAGS)
    try:
        layered = load_layers(profile=profile, config_file=config_file, flags=read_flags(unset))
    except SettingsError as error:
        return None, Finding("settings", "fail", str(error))
    changed = sum(given.layer is not Layer.BUILT_IN for given in layered.given.values())
    if layered.remarks:
        return layered.settings, Finding("settings", "warn", "; ".join(layered.remarks))
    return layered.settings, Finding("settings", "ok", f"{changed} set; `everbrook config show` prints them")
