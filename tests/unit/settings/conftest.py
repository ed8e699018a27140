"""A folder to start the server in, with whatever configuration files a test puts there."""

from collections.abc import Callable
from pathlib import Path

import pytest

WriteConfig = Callable[[str, str], Path]


@pytest.fixture
def write_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteConfig:
    """Give a function that writes a file of the folder ``config``, in an otherwise empty current folder."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> Path:
        path = Path("config") / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
