"""``everbrook config show``: every setting, its value, and which layer set it."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from everbrook.cli.flags import layer_flags
from everbrook.settings import Layered, load_layers
from everbrook.settings.fields import FIELDS, Field, format_value, plain
from everbrook.settings.sources import Given, Layer


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@layer_flags
@click.option("--format", "layout", type=click.Choice(["table", "json"]), default="table", show_default=True)
def show(profile: str | None, config_file: Path | None, layout: str) -> None:
    """Print each setting, its value, its environment name, and which layer set it."""
    layered = load_layers(profile=profile, config_file=config_file)
    click.echo(format_json(layered) if layout == "json" else format_table(layered))


def format_json(layered: Layered) -> str:
    """Write the settings as one JSON object."""
    log_filter = layered.log_filter
    document = {
        "settings": [_entry(field, layered) for field in FIELDS.values()],
        "log_filter": {
            "default": log_filter.default,
            "loggers": log_filter.loggers,
            "source": layered.log_filter_source,
        },
    }
    return json.dumps(document, indent=2)


def format_table(layered: Layered) -> str:
    """Write the settings as aligned columns, and below them the log filter that follows."""
    rows = [
        (field.name, format_value(_value(field, layered)), field.env, _set_by(layered.given[field.name]))
        for field in FIELDS.values()
    ]
    return "\n".join([*_align([("setting", "value", "environment", "set by"), *rows]), "", _log_line(layered)])


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


def _align(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
