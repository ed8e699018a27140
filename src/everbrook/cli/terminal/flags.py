"""Flags for settings. Meaning, default, environment name, conversion and checks come from the schema of the settings.

Click passes every flag on as text, so that a wrong value causes the same message in a flag as in a file.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from everbrook.durations import parse_duration_ms
from everbrook.settings.fields import FIELDS, format_value
from everbrook.settings.load import Given, Layer

Command = Callable[..., Any]


class Flag(Struct, frozen=True):
    """A flag and the setting that it sets."""

    option: str
    setting: str
    metavar: str | None
    """The placeholder of the value in the help. None: the flag has no value, and switches the setting on."""

    @property
    def parameter(self) -> str:
        """The name of the parameter in click."""
        return self.setting.replace(".", "__")

    @property
    def help(self) -> str:
        """The help text: meaning, environment name and default of the setting."""
        field = FIELDS[self.setting]
        meaning = field.description.replace("`", "")
        return f"{meaning}  [{field.env}; default {format_value(field.default)}]"

    def add_to(self, command: Command) -> Command:
        kind: dict[str, Any] = {"metavar": self.metavar} if self.metavar else {"is_flag": True, "flag_value": "true"}
        option = click.option(self.option, self.parameter, type=str, default=None, help=self.help, **kind)
        return option(command)


FLAGS = (
    Flag("--host", "server.host", "ADDRESS"),
    Flag("--port", "server.port", "PORT"),
    Flag("--public-url", "server.public_url", "URL"),
    Flag("--storage", "storage.mode", "MODE"),
    Flag("--data-dir", "storage.data_dir", "FOLDER"),
    Flag("--allow-unused-store", "storage.allow_unused_store", None),
    Flag("--long-poll-timeout", "server.long_poll_timeout_secs", "SECONDS"),
    Flag("--sse-reconnect-interval", "server.sse_reconnect_interval_secs", "SECONDS"),
    Flag("--shutdown-grace", "server.shutdown_grace_secs", "SECONDS"),
    Flag("--cors-origins", "http.cors_origins", "ORIGINS"),
    Flag("--max-memory-bytes", "limits.max_memory_bytes", "BYTES"),
    Flag("--max-stream-bytes", "limits.max_stream_bytes", "BYTES"),
    Flag("--max-append-bytes", "limits.max_append_bytes", "BYTES"),
    Flag("--log-level", "log.level", "LEVEL"),
    Flag("--log-format", "log.format", "FORMAT"),
)


def setting_flags(command: Command) -> Command:
    """Give a command all flags that set a setting."""
    for flag in reversed(FLAGS):
        command = flag.add_to(command)
    return command


def layer_flags(command: Command) -> Command:
    """Give a command the flags that choose the files to read."""
    profile = click.option("--profile", metavar="NAME", help="Also read config/NAME.toml.")
    config = click.option(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Also read this TOML file, after all others.",
    )
    return profile(config(command))


def read_flags(parameters: Mapping[str, str | None]) -> list[Given]:
    """Return the settings of the flags on the command line."""
    return [
        Given(flag.setting, value, Layer.FLAGS, flag.option)
        for flag in FLAGS
        if (value := parameters[flag.parameter]) is not None
    ]


def parse_duration(text: str) -> int:
    """Read a duration, in whole seconds. Click calls the type of an option by the name of this function."""
    try:
        duration_ms = parse_duration_ms(text, "s")
    except ValueError as error:
        raise click.BadParameter(f"{error}, got {text[:40]!r}") from error
    if duration_ms % 1000:
        raise click.BadParameter(f"must be whole seconds, got {text[:40]!r}")
    return duration_ms // 1000
