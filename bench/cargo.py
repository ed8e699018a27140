"""Servers from crates.io, built once, each in a folder of its own below `cargo/`: two of them share a binary's name."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent / "cargo"
_BUILD_TIMEOUT_SECS = 3600


class CargoUnavailable(Exception):
    """Cargo was not found, or could not build a crate."""


@dataclass(frozen=True, slots=True)
class Crate:
    """A crate at one version, and the binary of it that is wanted."""

    name: str
    version: str
    binary: str


def installed(crate: Crate, folder: Path = _FOLDER) -> Path:
    """Return the binary of a crate, which is built if it is not there."""
    root = folder / f"{crate.name}-{crate.version}"
    binary = root / "bin" / crate.binary
    if not binary.is_file():
        _install(crate, root)
    return binary


def _install(crate: Crate, root: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise CargoUnavailable(f"{crate.name} {crate.version} is built by cargo, which is not on PATH")
    print(f"building {crate.name} {crate.version} with cargo, which takes minutes …", file=sys.stderr)
    command = [cargo, "install", "--locked", "--root", str(root), "--version", f"={crate.version}", crate.name]
    built = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", timeout=_BUILD_TIMEOUT_SECS
    )
    if built.returncode != 0:
        last_line = (built.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise CargoUnavailable(f"cargo install {crate.name} ended with {built.returncode}: {last_line}")
