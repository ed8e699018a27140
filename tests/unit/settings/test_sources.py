"""Names that do not exist and files that cannot be read: each error says where it is and what was meant."""

import errno
from pathlib import Path
from unittest.mock import Mock

import pytest

from everbrook.settings import SettingsError, load_settings
from tests.unit.settings.conftest import WriteConfig


def refusal(environ: dict[str, str] | None = None, **options: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ=environ or {}, **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    "variable, message",
    [
        ("DS_SERVR__PORT", "DS_SERVR__PORT: unknown section 'SERVR'; did you mean DS_SERVER__PORT?"),
        (
            "DS_SERVER__PROT",
            "DS_SERVER__PROT: unknown setting 'PROT' in section 'SERVER'; did you mean DS_SERVER__PORT?",
        ),
        (
            "DS_HTTP__MAX_STREAM_BYTES",
            "DS_HTTP__MAX_STREAM_BYTES: unknown setting 'MAX_STREAM_BYTES' in section 'HTTP'; did you mean DS_LIM",
        ),
        ("DS_ZZZ__QQQ", "DS_ZZZ__QQQ: unknown section 'ZZZ'"),
        ("DS_SERVER__PORT__X", "DS_SERVER__PORT__X: unknown setting 'PORT__X' in section 'SERVER'; did you mean "),
        ("DS___PORT", "DS___PORT: unknown section ''"),
    ],
)
def test_a_misspelt_variable_is_named_with_the_nearest_one(
    write_config: WriteConfig, variable: str, message: str
) -> None:
    assert refusal({variable: "1"}).startswith(message)


@pytest.mark.parametrize("variable", ["DS_SERVER_URL", "DS_", "XDS_SERVR__PORT", "PORT"])
def test_a_variable_that_names_no_section_is_left_alone(write_config: WriteConfig, variable: str) -> None:
    assert load_settings(environ={variable: "x"}) == load_settings(environ={})


def test_a_misspelt_section_of_a_file_is_named_with_the_nearest_one(write_config: WriteConfig) -> None:
    path = write_config("default.toml", "everbrook = true\n[servr]\n")
    assert refusal() == f"{path}: unknown section [servr]; did you mean server?"


def test_a_misspelt_key_of_a_file_is_named_with_the_nearest_one(write_config: WriteConfig) -> None:
    path = write_config("local.toml", "[server]\nprot = 1\n")
    assert refusal() == f"{path}: unknown setting server.prot; did you mean server.port?"


def test_a_key_far_from_any_setting_gets_no_suggestion(write_config: WriteConfig) -> None:
    path = write_config("local.toml", "[log]\nxyzzy = 1\n")
    assert refusal() == f"{path}: unknown setting log.xyzzy"


def test_a_section_that_is_a_value_is_refused(write_config: WriteConfig) -> None:
    path = write_config("default.toml", "server = 4437\n")
    assert refusal() == f"{path}: server must be a section, got 4437"


def test_invalid_toml_is_refused_with_its_position(write_config: WriteConfig) -> None:
    path = write_config("default.toml", "[server]\nport = = 1\n")
    message = refusal()
    assert message.startswith(f"{path}: not valid TOML: ")
    assert "line 2, column 8" in message


def test_a_file_that_is_not_utf8_is_refused_with_its_position(write_config: WriteConfig) -> None:
    path = write_config("default.toml", "")
    path.write_bytes(b"# caf\xe9\n")
    assert refusal() == f"{path}: not UTF-8 at byte 5"


def test_a_missing_profile_is_an_error(write_config: WriteConfig) -> None:
    path = Path("config/staging.toml")
    assert refusal(profile="staging") == f"{path}: cannot be read: No such file or directory"


@pytest.mark.parametrize("profile", ["", "../dev", "a/b", "/etc/dev"])
def test_a_profile_is_a_name_and_not_a_path(write_config: WriteConfig, profile: str) -> None:
    assert refusal(profile=profile) == f"--profile: must be NAME of config/NAME.toml, got {profile!r}"


def test_a_missing_given_file_is_an_error(write_config: WriteConfig) -> None:
    assert refusal(config_file=Path("no.toml")) == "no.toml: cannot be read: No such file or directory"


def test_a_folder_instead_of_a_file_is_an_error(write_config: WriteConfig) -> None:
    Path("config/default.toml").mkdir(parents=True)
    assert refusal() == f"{Path('config/default.toml')}: cannot be read: Is a directory"


def test_an_optional_file_that_may_not_be_read_is_an_error(
    write_config: WriteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is simulated: to root every file is open."""
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(Path, "read_text", Mock(side_effect=denied))
    assert refusal() == f"{Path('config/default.toml')}: cannot be read: Permission denied"
