"""``everbrook config show``: every setting, its value, and which layer set it."""

import json
from pathlib import Path

import click

from everbrook.cli.terminal.flags import layer_flags
from everbrook.cli.terminal.output import align, json_option, print_json
from everbrook.settings import Layered, load_layers
from everbrook.settings.fields import FIELDS, Field, format_value, plain
from everbrook.settings.load import Given, Layer


@click.group()
def config() -> None:
    """Show the settings."""


@config.command()
@layer_flags
@click.option("--format", "layout", type=click.Choice(["table", "json"]), default="table", show_default=True)
@json_option
def show(profile: str | None, config_file: Path | None, layout: str, *, as_json: bool) -> None:
    """Print each setting, its value, its environment name, and which layer set it."""
    layered = load_layers(profile=profile, config_file=config_file)
    for remark in layered.remarks:
        click.echo(f"everbrook: {remark}", err=True)
    if as_json:
        print_json(document_of(layered))
    else:
        click.echo(format_json(layered) if layout == "json" else format_table(layered))


def document_of(layered: Layered) -> dict[str, object]:
    """Return the settings as one JSON object."""
    log_filter = layered.log_filter
    return {
        "settings": [_entry(field, layered) for field in FIELDS.values()],
        "log_filter": {
            "default": log_filter.default,
            "loggers": log_filter.loggers,
            "source": layered.log_filter_source,
        },
    }


def format_json(layered: Layered) -> str:
    """Write the settings as one JSON object, for people too."""
    return json.dumps(document_of(layered), indent=2)


def format_table(layered: Layered) -> str:
    """Write the settings as aligned columns, and below them the log filter that follows."""
    rows = [
        (field.name, format_value(_value(field, layered)), field.env, _set_by(layered.given[field.name]))
        for field in FIELDS.values()
    ]
    return "\n".join([*align([("setting", "value", "environment", "set by"), *rows]), "", _log_line(layered)])


def _entry(field: Field, layered: Layered) -> dict[str, object]:
    given = layered.given[field.name]
    return {
        "name": field.name,
        "value": plain(_value(field, layered)),
        "env": field.env,
        "layer": given.layer.label,
        "source": given.source,
    }


def _value(field: Field, layered: Layered) -> object:
    return getattr(getattr(layered.settings, field.section), field.key)


def _set_by(given: Given) -> str:
    return given.layer.label if given.layer is Layer.ENVIRONMENT else given.source


def _log_line(layered: Layered) -> str:
    loggers = (f"{name}={level}" for name, level in layered.log_filter.loggers.items())
    directives = ",".join([layered.log_filter.default, *loggers])
    return f"log filter in force: {directives} (set by {layered.log_filter_source})"
