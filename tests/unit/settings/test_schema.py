"""The schema alone: defaults, and words in any case."""

import pytest

from everbrook.settings import LimitSettings, LogLevel, Settings, StorageMode
from everbrook.settings.fields import FIELDS


def test_settings_without_arguments_hold_the_defaults() -> None:
    settings = Settings()
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 4437)
    assert (settings.storage.mode, settings.storage.data_dir) == (StorageMode.ACID, "./data/streams")
    assert settings.storage.acid_shard_count == 1
    assert (settings.limits.max_memory_bytes, settings.limits.max_stream_bytes) == (None, None)


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().server.port = 1  # type: ignore[misc]


def test_every_field_has_its_environment_name() -> None:
    assert FIELDS["server.long_poll_timeout_secs"].env == "DS_SERVER__LONG_POLL_TIMEOUT_SECS"
    assert FIELDS["http.cors_origins"].env == "DS_HTTP__CORS_ORIGINS"


def test_every_field_has_the_default_of_the_schema() -> None:
    settings = Settings()
    values = {name: getattr(getattr(settings, f.section), f.key) for name, f in FIELDS.items()}
    assert values == {name: f.default for name, f in FIELDS.items()}


def test_a_storage_mode_is_written_as_its_word() -> None:
    assert f"{StorageMode.MEMORY}" == "memory"


@pytest.mark.parametrize("word", ["acid", "ACID", "redb", "Redb"])
def test_acid_is_also_called_redb(word: str) -> None:
    assert StorageMode(word) is StorageMode.ACID


def test_memory_is_the_one_mode_that_does_not_outlive_the_process() -> None:
    assert [mode for mode in StorageMode if not mode.durable] == [StorageMode.MEMORY]


def test_memory_mode_is_bounded_where_nothing_is_set() -> None:
    limits = LimitSettings().in_mode(StorageMode.MEMORY)
    assert (limits.max_memory_bytes, limits.max_stream_bytes) == (104_857_600, 10_485_760)


@pytest.mark.parametrize("mode", [mode for mode in StorageMode if mode.durable])
def test_a_durable_mode_has_no_bound_where_nothing_is_set(mode: StorageMode) -> None:
    assert LimitSettings().in_mode(mode) == LimitSettings()


@pytest.mark.parametrize("mode", StorageMode)
def test_a_limit_that_is_set_holds_in_every_mode(mode: StorageMode) -> None:
    limits = LimitSettings(max_memory_bytes=7, max_stream_bytes=5).in_mode(mode)
    assert (limits.max_memory_bytes, limits.max_stream_bytes) == (7, 5)


@pytest.mark.parametrize(
    "limits, most",
    [
        (LimitSettings(), 50 * 1024 * 1024),
        (LimitSettings(max_memory_bytes=1000), 500),
        (LimitSettings(max_memory_bytes=1000, max_bucket_memory_bytes=900), 900),
    ],
)
def test_a_bucket_has_a_half_of_the_memory_unless_it_is_told_otherwise(limits: LimitSettings, most: int) -> None:
    assert limits.in_mode(StorageMode.MEMORY).max_bucket_memory_bytes == most


def test_the_memory_of_a_bucket_is_bounded_in_memory_mode_alone() -> None:
    limits = LimitSettings(max_bucket_memory_bytes=1000)
    assert limits.in_mode(StorageMode.ACID).max_bucket_memory_bytes is None


@pytest.mark.parametrize("word", ["warn", "WARN", "Warning"])
def test_a_log_level_is_read_in_any_case_and_by_its_python_name(word: str) -> None:
    assert LogLevel(word) is LogLevel.WARN


@pytest.mark.parametrize("word", ["", "verbose", "30"])
def test_an_unknown_word_is_no_log_level(word: str) -> None:
    with pytest.raises(ValueError, match="not a valid LogLevel"):
        LogLevel(word)
