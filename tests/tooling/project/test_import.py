"""Importing is cheap: nothing heavy is loaded before it is used."""

import subprocess
import sys

import pytest

HEAVY = {
    "asyncio",
    "click",
    "duckdb",
    "httptools",
    "httpx2",
    "lmdb",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "rich",
    "starlette",
    "uvloop",
}

ASSEMBLED = """
from everbrook.server.assembly import assemble
from everbrook.server.http1.listener import Listener
from everbrook.settings import Settings
from everbrook.storage.memory import MemoryStorage

async def start():
    application = assemble(Settings(), MemoryStorage())
    await Listener(application).listen("127.0.0.1", 0)
    await application.close()

asyncio.run(start())
"""


def loaded_by(statement: str) -> set[str]:
    """Give the modules that a fresh interpreter has after a statement and has not without it."""
    code = f"import sys; before = set(sys.modules); {statement}\nprint(*(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    return set(ran.stdout.split())


def below(package: str, modules: set[str]) -> set[str]:
    return {name for name in modules if name == package or name.startswith(f"{package}.")}


def test_the_package_loads_nothing_heavy() -> None:
    modules = loaded_by("import everbrook")
    assert "everbrook" in modules
    assert not modules & HEAVY


@pytest.mark.parametrize("package", ["cli", "engine", "server", "storage"])
def test_the_package_does_not_load_the_server(package: str) -> None:
    assert not below(f"everbrook.{package}", loaded_by("import everbrook"))


def test_settings_load_nothing_heavy() -> None:
    assert not loaded_by("import everbrook.settings") & HEAVY


def test_the_command_line_does_not_load_the_server() -> None:
    modules = loaded_by("import everbrook.cli.main")
    assert "click" in modules
    assert not modules & (HEAVY - {"click"})
    assert not below("everbrook.server", modules)


def test_a_server_without_policy_loads_nothing_that_only_a_policy_needs() -> None:
    modules = loaded_by(f"import asyncio, everbrook.server.serve; {ASSEMBLED}")
    assert "everbrook.server.http1.connection" in modules
    assert not modules & {"cryptography", "httpx2", "jwt", "opentelemetry"}
