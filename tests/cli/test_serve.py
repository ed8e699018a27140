"""``everbrook serve``: the settings and the logging that the server is started with."""

import errno
import logging
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from everbrook.cli.terminal.flags import FLAGS, Flag
from everbrook.settings import Settings, StorageMode
from everbrook.settings.fields import FIELDS
from everbrook.storage import StoreError
from tests.cli.conftest import Run

# For each flag a value that is not the default.
OTHER_VALUES = {
    "--host": "::1",
    "--port": "8080",
    "--public-url": "https://a.example",
    "--storage": "memory",
    "--data-dir": "elsewhere",
    "--allow-unused-store": "True",
    "--long-poll-timeout": "0.5",
    "--sse-reconnect-interval": "5.5",
    "--shutdown-grace": "1.5",
    "--cors-origins": "https://b.example",
    "--max-memory-bytes": "1001",
    "--max-stream-bytes": "1002",
    "--max-append-bytes": "1003",
    "--log-level": "warn",
    "--log-format": "json",
}


class FakeServing(ModuleType):
    """Stands for the server: keeps the settings it was started with, or fails as told."""

    def __init__(self) -> None:
        super().__init__("everbrook.server.serve")
        self.started: list[Settings] = []
        self.failure: BaseException | None = None

    def run(self, settings: Settings, command: list[str]) -> None:
        assert command, "a restart would not know what to start"
        self.started.append(settings)
        if self.failure:
            raise self.failure

    def check_start(self, _settings: Settings) -> None:
        raise AssertionError("nobody asked whether it would start")


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> FakeServing:
    fake = FakeServing()
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    return fake


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo what a started server does to the logging of this process."""
    loggers = [logging.getLogger(), logging.getLogger("everbrook"), logging.getLogger("everbrook.engine")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


def test_the_server_starts_with_the_defaults(run: Run, serving: FakeServing) -> None:
    assert run("serve").code == 0
    assert serving.started == [Settings()]


def test_flags_are_the_topmost_layer(run: Run, serving: FakeServing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_SERVER__PORT", "1")
    run("serve", "--port", "0", "--storage", "memory", "--long-poll-timeout", "0.5")
    (settings,) = serving.started
    assert (settings.server.port, settings.server.long_poll_timeout_secs) == (0, 0.5)
    assert settings.storage.mode is StorageMode.MEMORY


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.option)
def test_every_flag_sets_its_setting(run: Run, flag: Flag, serving: FakeServing) -> None:
    run("serve", flag.option, *([OTHER_VALUES[flag.option]] if flag.metavar else []))
    section, key = flag.setting.split(".")
    value = getattr(getattr(serving.started[0], section), key)
    assert str(value) == OTHER_VALUES[flag.option]


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.option)
def test_help_shows_every_flag_with_its_variable(run: Run, flag: Flag) -> None:
    out = run("serve", "--help").out
    assert flag.option in out
    assert FIELDS[flag.setting].env in out


def test_logging_is_set_up_before_the_server_starts(
    run: Run, serving: FakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUST_LOG", "error,everbrook.engine=debug")
    run("serve")
    assert logging.getLogger().level == logging.ERROR
    assert logging.getLogger("everbrook.engine").level == logging.DEBUG


def test_an_address_in_use_is_one_line_and_exit_code_1(run: Run, serving: FakeServing) -> None:
    serving.failure = OSError(errno.EADDRINUSE, "address already in use")
    ran = run("serve")
    assert (ran.code, ran.err) == (1, f"everbrook: [Errno {errno.EADDRINUSE}] address already in use\n")


def test_a_data_folder_that_cannot_be_used_is_one_line_and_exit_code_1(run: Run, serving: FakeServing) -> None:
    serving.failure = StoreError("data is in use by another server (process 1)")
    ran = run("serve")
    assert (ran.code, ran.err) == (1, "everbrook: data is in use by another server (process 1)\n")


def test_a_failure_with_several_lines_is_still_one_line(run: Run, serving: FakeServing) -> None:
    serving.failure = OSError("no\nway")
    assert run("serve").err == "everbrook: no way\n"


def test_an_interrupt_is_exit_code_130(run: Run, serving: FakeServing) -> None:
    serving.failure = KeyboardInterrupt()
    assert run("serve").code == 130


def test_a_wrong_setting_is_found_before_the_server_is_loaded(run: Run, serving: FakeServing) -> None:
    assert run("serve", "--port", "x").code == 2
    assert serving.started == []
