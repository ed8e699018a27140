"""Types and bounds: what is converted, and what each refusal says."""

from pathlib import Path

import pytest

from everbrook.settings import Settings, SettingsError, StorageMode, load_settings, parse_origins
from everbrook.settings.fields import FIELDS, Field
from tests.unit.settings.conftest import WriteConfig


def load(variable: str, value: str) -> Settings:
    return load_settings(environ={variable: value}, folder=Path("nowhere"))


def refusal(variable: str, value: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(variable, value)
    return str(caught.value)


def test_an_integer_of_the_environment_is_converted() -> None:
    assert load("DS_SERVER__PORT", "8080").server.port == 8080


@pytest.mark.parametrize("text, secs", [("0.5", 0.5), ("2", 2.0), ("0", 0.0), ("1e2", 100.0)])
def test_a_timeout_takes_fractions_of_a_second(text: str, secs: float) -> None:
    loaded = load("DS_SERVER__LONG_POLL_TIMEOUT_SECS", text).server.long_poll_timeout_secs
    assert loaded == secs
    assert isinstance(loaded, float)


def test_a_whole_number_in_a_file_is_a_timeout_too(write_config: WriteConfig) -> None:
    write_config("default.toml", "[server]\nlong_poll_timeout_secs = 2\n")
    assert isinstance(load_settings(environ={}).server.long_poll_timeout_secs, float)


def test_a_word_is_read_in_any_case() -> None:
    assert load("DS_STORAGE__MODE", "Memory").storage.mode is StorageMode.MEMORY


LIMITS = [field for field in FIELDS.values() if field.section == "limits" and not field.key.endswith("_secs")]


@pytest.mark.parametrize("value", ["-1", "65536", "http", "", "1.5", "true", "9" * 200])
def test_a_port_is_an_integer_from_0_to_65535(value: str) -> None:
    message = refusal("DS_SERVER__PORT", value)
    assert message.startswith("DS_SERVER__PORT: server.port must be an integer from 0 to 65535, got ")
    assert len(message) < 200


@pytest.mark.parametrize("value", [0, 65535])
def test_the_outermost_ports_are_accepted(value: int) -> None:
    assert load("DS_SERVER__PORT", str(value)).server.port == value


@pytest.mark.parametrize("field", [field for field in LIMITS if field.default != 0 and "`0`" not in field.description])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_every_limit_that_is_on_and_can_not_be_put_off_is_positive(field: Field, value: str) -> None:
    message = refusal(field.env, value)
    assert message == f"{field.env}: {field.name} must be an integer of at least 1, got {value!r}"


@pytest.mark.parametrize("field", [field for field in LIMITS if field.default == 0])
def test_every_limit_that_is_off_is_zero_and_never_less(field: Field) -> None:
    assert load(field.env, "0") == load(field.env, str(field.default))
    assert refusal(field.env, "-1") == f"{field.env}: {field.name} must be an integer of at least 0, got '-1'"


@pytest.mark.parametrize("name", [name for name in FIELDS if name.endswith("_secs")])
@pytest.mark.parametrize("value", ["-0.1", "inf", "-inf", "nan", "soon", "1e999"])
def test_every_timeout_is_finite_and_not_negative(name: str, value: str) -> None:
    env, expected = FIELDS[name].env, FIELDS[name].expected
    assert expected.startswith(("a finite number", "an integer"))
    assert refusal(env, value) == f"{env}: {name} must be {expected}, got {value!r}"


@pytest.mark.parametrize(
    "line, got",
    [
        ('port = "4437"', "'4437'"),
        ("port = true", "True"),
        ("port = 4437.0", "4437.0"),
        ("port = [1]", "[1]"),
        ("port = 1979-05-27", "datetime.date(1979, 5, 27)"),
    ],
)
def test_a_file_must_use_the_type_of_the_setting(write_config: WriteConfig, line: str, got: str) -> None:
    path = write_config("default.toml", f"[server]\n{line}\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={})
    assert str(caught.value) == f"{path}: server.port must be an integer from 0 to 65535, got {got}"


def test_infinity_in_a_file_is_refused(write_config: WriteConfig) -> None:
    write_config("default.toml", "[server]\nidle_timeout_secs = inf\n")
    with pytest.raises(SettingsError, match="must be a finite number of at least 0, got inf"):
        load_settings(environ={})


def test_a_number_for_a_string_is_refused(write_config: WriteConfig) -> None:
    write_config("default.toml", "[server]\nhost = 1\n")
    with pytest.raises(SettingsError, match=r"server\.host must be an address or a host name, got 1"):
        load_settings(environ={})


def test_a_value_that_a_later_layer_covers_is_checked_too(write_config: WriteConfig) -> None:
    write_config("default.toml", "[server]\nport = -1\n")
    with pytest.raises(SettingsError, match="got -1"):
        load_settings(environ={"DS_SERVER__PORT": "1"})


def test_a_storage_mode_that_does_not_exist_is_refused_with_those_that_do() -> None:
    message = refusal("DS_STORAGE__MODE", "disk")
    assert message == "DS_STORAGE__MODE: storage.mode must be memory, file-fast, file-durable or acid, got 'disk'"


@pytest.mark.parametrize("value", [1, 2, 64, 256])
def test_a_shard_count_is_a_power_of_two(value: int) -> None:
    assert load("DS_STORAGE__ACID_SHARD_COUNT", str(value)).storage.acid_shard_count == value


@pytest.mark.parametrize("value", ["0", "-1", "3", "96", "255", "512", "two", ""])
def test_a_shard_count_that_is_no_power_of_two_up_to_256_is_refused(value: str) -> None:
    message = refusal("DS_STORAGE__ACID_SHARD_COUNT", value)
    expected = f"storage.acid_shard_count must be a power of two from 1 to 256, got {value!r}"
    assert message == f"DS_STORAGE__ACID_SHARD_COUNT: {expected}"


@pytest.mark.parametrize("value", ["", " ", "a\0b"])
def test_a_data_folder_that_cannot_be_a_path_is_refused(value: str) -> None:
    assert "storage.data_dir must be the path of a folder, got " in refusal("DS_STORAGE__DATA_DIR", value)


def test_an_empty_variable_unsets_a_limit_of_a_file(write_config: WriteConfig) -> None:
    write_config("default.toml", "[limits]\nmax_stream_bytes = 5\n")
    assert load_settings(environ={}).limits.max_stream_bytes == 5
    assert load_settings(environ={"DS_LIMITS__MAX_STREAM_BYTES": ""}).limits.max_stream_bytes is None


def test_a_log_level_that_does_not_exist_is_refused_with_those_that_do() -> None:
    message = refusal("DS_LOG__LEVEL", "loud")
    assert message == "DS_LOG__LEVEL: log.level must be off, error, warn, info, debug or trace, got 'loud'"


def test_a_log_format_that_does_not_exist_is_refused_with_those_that_do() -> None:
    assert refusal("DS_LOG__FORMAT", "xml") == "DS_LOG__FORMAT: log.format must be text or json, got 'xml'"


def test_a_malformed_log_filter_is_refused_with_the_part_that_is() -> None:
    message = refusal("DS_LOG__RUST_LOG", "info,everbrook.engine=loud")
    assert message.startswith("DS_LOG__RUST_LOG: log.rust_log must be a log filter such as ")
    assert message.endswith(", got 'info,everbrook.engine=loud': 'loud' is not a log level")


@pytest.mark.parametrize("value", ["", "localhost ", "http://localhost", "[::1]", "a\nb", "café"])
def test_a_host_that_cannot_be_one_is_refused(value: str) -> None:
    assert "server.host must be an address or a host name" in refusal("DS_SERVER__HOST", value)


@pytest.mark.parametrize("value", ["0.0.0.0", "::", "localhost", "streams.example.com"])  # noqa: S104
def test_a_host_is_an_address_or_a_name(value: str) -> None:
    assert load("DS_SERVER__HOST", value).server.host == value


@pytest.mark.parametrize("value", ["/", "/v1/stream/", "/a/b-c/~d/"])
def test_a_root_is_a_path_between_slashes(value: str) -> None:
    assert load("DS_SERVER__STREAM_ROOT", value).server.stream_root == value
    assert load("DS_SERVER__STREAM_ROOT_ALIAS", value).server.stream_root_alias == value


@pytest.mark.parametrize("value", ["streams/", "/streams", "//", "/a//b/", "/é/", "/a b/", "/a?/", "/ds/", "/ui/x/"])
def test_another_root_is_refused(value: str) -> None:
    assert "server.stream_root must be a path" in refusal("DS_SERVER__STREAM_ROOT", value)
    assert "server.stream_root_alias must be nothing, or a path" in refusal("DS_SERVER__STREAM_ROOT_ALIAS", value)


def test_there_need_be_no_other_root() -> None:
    assert load("DS_SERVER__STREAM_ROOT_ALIAS", "").server.stream_root_alias == ""


@pytest.mark.parametrize(
    "value",
    ["", "http://localhost:4437", "https://a.example", "https://a.example/streams", "http://[::1]:80"],
)
def test_a_public_url_is_empty_or_a_base_url(value: str) -> None:
    assert load("DS_SERVER__PUBLIC_URL", value).server.public_url == value


@pytest.mark.parametrize(
    "value",
    [
        "a.example",
        "//a.example",
        "ftp://a.example",
        "https://",
        "https:///path",
        "https://a.example/",
        "https://a.example?x=1",
        "https://a.example?",
        "https://a.example#x",
        "https://user@a.example",
        "https://a.example:0",
        "https://a.example:99999",
        "https://a.example:x",
        "https://[a.example",
        "https://a.example/a b",
        "https://a.example/\r\nX: y",
        "https://é.example",
        "https:\\\\a.example",
    ],
)
def test_a_public_url_that_cannot_start_a_location_is_refused(value: str) -> None:
    assert "server.public_url must be an http or https URL" in refusal("DS_SERVER__PUBLIC_URL", value)


@pytest.mark.parametrize(
    "text, origins",
    [
        ("*", ("*",)),
        (" * ", ("*",)),
        ("", ()),
        ("https://a.example", ("https://a.example",)),
        ("https://a.example, http://localhost:3000", ("https://a.example", "http://localhost:3000")),
        ("http://[::1]:3000", ("http://[::1]:3000",)),
        ("chrome-extension://abcdef", ("chrome-extension://abcdef",)),
    ],
)
def test_origins_are_separated_by_commas(text: str, origins: tuple[str, ...]) -> None:
    assert parse_origins(load("DS_HTTP__CORS_ORIGINS", text).http.cors_origins) == origins


@pytest.mark.parametrize(
    "text",
    [
        "a.example",
        "https://a.example/",
        "https://a.example/path",
        "https://A.example",
        "https://*.example",
        "*,https://a.example",
        "https://a.example,",
        "https://a.example https://b.example",
        "null",
    ],
)
def test_what_no_browser_sends_as_an_origin_is_refused(text: str) -> None:
    assert "http.cors_origins must be '*' or origins" in refusal("DS_HTTP__CORS_ORIGINS", text)
