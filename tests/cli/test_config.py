"""``everbrook config show``: each value, and the layer that set it."""

import json
from pathlib import Path

import pytest

from everbrook.settings.fields import FIELDS
from tests.cli.conftest import Run


@pytest.fixture
def config(folder: Path) -> Path:
    """Make the folder for configuration files."""
    path = folder / "config"
    path.mkdir()
    return path


def cells(table: str, setting: str) -> list[str]:
    return next(line.split() for line in table.splitlines() if line.startswith(f"{setting} "))


def test_every_setting_has_a_row(run: Run) -> None:
    out = run("config", "show").out
    assert [line.split()[0] for line in out.splitlines()[1 : len(FIELDS) + 1]] == list(FIELDS)


def test_a_row_has_value_variable_and_layer(run: Run) -> None:
    out = run("config", "show").out
    assert cells(out, "server.port") == ["server.port", "4437", "DS_SERVER__PORT", "built-in"]


def test_a_variable_shows_as_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_SERVER__PORT", "8080")
    assert cells(run("config", "show").out, "server.port")[1:] == ["8080", "DS_SERVER__PORT", "environment"]


def test_a_file_shows_by_its_path(run: Run, config: Path) -> None:
    (config / "dev.toml").write_text("[server]\nport = 2\n")
    out = run("config", "show", "--profile", "dev").out
    assert cells(out, "server.port")[1::2] == ["2", str(Path("config/dev.toml"))]


def test_a_given_file_shows_by_its_path(run: Run, folder: Path) -> None:
    (folder / "mine.toml").write_text('[server]\npublic_url = "https://a.example"\n')
    out = run("config", "show", "--config", "mine.toml").out
    assert cells(out, "server.public_url")[1::2] == ['"https://a.example"', "mine.toml"]


def test_the_log_filter_in_force_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUST_LOG", "warn,durable_streams=debug")
    last = run("config", "show").out.splitlines()[-1]
    assert last == "log filter in force: warn,everbrook=debug (set by RUST_LOG)"


def test_json_has_every_setting_with_its_layer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_SERVER__LONG_POLL_TIMEOUT_SECS", "0.5")
    settings = {entry["name"]: entry for entry in json.loads(run("config", "show", "--format", "json").out)["settings"]}
    assert list(settings) == list(FIELDS)
    assert settings["server.long_poll_timeout_secs"] == {
        "name": "server.long_poll_timeout_secs",
        "value": 0.5,
        "env": "DS_SERVER__LONG_POLL_TIMEOUT_SECS",
        "layer": "environment",
        "source": "DS_SERVER__LONG_POLL_TIMEOUT_SECS",
    }


def test_json_has_the_log_filter(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUST_LOG", "everbrook.engine=off")
    document = json.loads(run("config", "show", "--format", "json").out)
    expected = {"default": "info", "loggers": {"everbrook.engine": "off"}, "source": "RUST_LOG"}
    assert document["log_filter"] == expected


def test_json_is_one_line_if_asked_for_as_elsewhere(run: Run) -> None:
    ran = run("config", "show", "--json")
    assert ran.out.count("\n") == 1
    assert json.loads(ran.out) == json.loads(run("config", "show", "--format", "json").out)
