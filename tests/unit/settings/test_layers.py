"""Which layer wins, and which one is remembered."""

import re
from pathlib import Path

import pytest

from everbrook.settings import Settings, SettingsError, load_layers, load_settings
from everbrook.settings.fields import FIELDS
from everbrook.settings.load import Given, Layer
from tests.unit.settings.conftest import WriteConfig

PORT_FLAG = Given("server.port", "7", Layer.FLAGS, "--port")


def port(number: int) -> str:
    return f"[server]\nport = {number}\n"


@pytest.fixture
def all_layers(write_config: WriteConfig) -> Path:
    """Write every file, each with a port of its own; give the one for ``--config``."""
    write_config("default.toml", port(1))
    write_config("dev.toml", port(2))
    write_config("local.toml", port(3))
    return write_config("given.toml", port(4))


def test_without_files_and_variables_everything_is_built_in(write_config: WriteConfig) -> None:
    layered = load_layers(environ={})
    assert layered.settings == Settings()
    assert {given.layer for given in layered.given.values()} == {Layer.BUILT_IN}


def test_the_default_file_beats_the_built_in_default(write_config: WriteConfig) -> None:
    write_config("default.toml", port(1))
    assert load_settings(environ={}).server.port == 1


def test_the_profile_beats_the_default_file(write_config: WriteConfig) -> None:
    write_config("default.toml", port(1))
    write_config("dev.toml", port(2))
    assert load_settings(profile="dev", environ={}).server.port == 2


def test_a_profile_that_is_not_asked_for_is_not_read(write_config: WriteConfig) -> None:
    write_config("dev.toml", port(2))
    assert load_settings(environ={}).server.port == 4437


def test_the_local_file_beats_the_profile(all_layers: Path) -> None:
    assert load_settings(profile="dev", environ={}).server.port == 3


def test_the_given_file_beats_the_local_file(all_layers: Path) -> None:
    assert load_settings(profile="dev", config_file=all_layers, environ={}).server.port == 4


def test_the_environment_beats_every_file(all_layers: Path) -> None:
    environ = {"DS_SERVER__PORT": "5"}
    assert load_settings(profile="dev", config_file=all_layers, environ=environ).server.port == 5


def test_a_flag_beats_everything(all_layers: Path) -> None:
    settings = load_settings(profile="dev", config_file=all_layers, environ={"DS_SERVER__PORT": "5"}, flags=[PORT_FLAG])
    assert settings.server.port == 7


def test_the_real_environment_is_read_when_none_is_given(
    write_config: WriteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_SERVER__PORT", "5")
    assert load_settings().server.port == 5


def test_layers_are_merged_key_by_key(write_config: WriteConfig) -> None:
    write_config("default.toml", '[server]\nhost = "::1"\nport = 1\n')
    write_config("local.toml", port(3))
    settings = load_settings(environ={})
    assert (settings.server.host, settings.server.port) == ("::1", 3)


def test_each_value_remembers_the_layer_and_source_that_set_it(all_layers: Path) -> None:
    layered = load_layers(
        profile="dev", environ={"DS_LOG__LEVEL": "warn"}, flags=[Given("server.host", "::", Layer.FLAGS, "--host")]
    )
    seen = {name: (given.layer.label, given.source) for name, given in layered.given.items()}
    assert seen["server.port"] == ("local-file", str(Path("config/local.toml")))
    assert seen["log.level"] == ("environment", "DS_LOG__LEVEL")
    assert seen["server.host"] == ("flags", "--host")
    assert seen["storage.mode"] == ("built-in", "built-in")


def test_the_folder_of_files_can_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "everbrook.toml").write_text(port(9))
    assert load_settings(folder=tmp_path, environ={}).server.port == 9


def test_the_file_of_the_project_beats_the_default_file_and_loses_to_the_profile(all_layers: Path) -> None:
    Path("config/local.toml").unlink()
    Path("everbrook.toml").write_text(port(8))
    assert load_settings(environ={}).server.port == 8
    assert load_settings(profile="dev", environ={}).server.port == 2


def test_settings_can_be_a_table_of_pyproject(write_config: WriteConfig) -> None:
    Path("pyproject.toml").write_text('[project]\nname = "shop"\n[tool.everbrook.server]\nport = 8\n')
    layered = load_layers(environ={})
    assert (layered.settings.server.port, layered.given["server.port"].source) == (8, "pyproject.toml")


def test_a_pyproject_without_our_table_gives_nothing(write_config: WriteConfig) -> None:
    Path("pyproject.toml").write_text("tool = 1\n")
    assert load_settings(environ={}) == Settings()


def test_the_file_of_the_project_is_read_instead_of_pyproject_and_says_so(write_config: WriteConfig) -> None:
    Path("everbrook.toml").write_text(port(8))
    Path("pyproject.toml").write_text("[tool.everbrook.server]\nport = 9\n")
    layered = load_layers(environ={})
    assert layered.settings.server.port == 8
    assert layered.remarks == ["[tool.everbrook] in pyproject.toml is not read, because there is everbrook.toml"]


@pytest.mark.parametrize("name", ["default.toml", "local.toml"])
def test_a_file_of_another_program_is_left_alone_and_named(write_config: WriteConfig, name: str) -> None:
    path = write_config(name, "[database]\nport = 1\n" + port(1))
    layered = load_layers(environ={})
    assert layered.settings == Settings()
    (remark,) = layered.remarks
    assert remark.startswith(f"{path} is not read: [database] is no section of Everbrook.")


def test_a_file_that_says_it_is_ours_may_hold_nothing_else(write_config: WriteConfig) -> None:
    path = write_config("default.toml", "everbrook = true\n[database]\nport = 1\n")
    with pytest.raises(SettingsError, match=f"^{re.escape(str(path))}: unknown section .database."):
        load_settings(environ={})


def test_a_table_of_pyproject_has_to_be_one(write_config: WriteConfig) -> None:
    Path("pyproject.toml").write_text("[tool]\neverbrook = 1\n")
    with pytest.raises(SettingsError, match=r"^pyproject.toml: tool.everbrook must be a table, got 1$"):
        load_settings(environ={})


def test_a_plain_file_where_the_folder_should_be_holds_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").touch()
    assert load_settings(environ={}) == Settings()


def test_every_setting_can_come_from_the_environment() -> None:
    environ = {field.env: "" if field.optional else str(field.default) for field in FIELDS.values()}
    layered = load_layers(environ=environ, folder=Path("nowhere"))
    assert layered.settings == Settings()
    assert {given.layer for given in layered.given.values()} == {Layer.ENVIRONMENT}
