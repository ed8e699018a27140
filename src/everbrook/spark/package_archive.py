"""Sends the package to workers that lack it: in an archive, which Spark unpacks on the path of their Python.

Spark puts the folder of a session's files on the path of every Python that it starts. An archive named `everbrook`
becomes the folder `everbrook` there, and so the package itself. Its dependencies are in a folder within, at the end of
the path: packages of the worker take precedence. Compiled packages fit only workers with the same platform and Python.
Spark, pyarrow, numpy and pandas are too large to be sent, and every worker has them.
"""

import atexit
import re
import shutil
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from tempfile import mkdtemp
from zipfile import ZIP_DEFLATED, ZipFile

from pyspark.sql import SparkSession

import everbrook
from everbrook.spark.arrival import PACKAGES

NEEDED = ("backports-zstd", "httptools", "httpx2", "msgspec", "psycopg", "psycopg-binary")
"""The packages that the connector imports and that workers may lack. Those that are not installed here are left out."""

_NAME = "everbrook"
_REQUIRED = re.compile(r"[\w.-]+")
_SEPARATORS = re.compile(r"[-_.]+")
_PATH = f'import sys; sys.path.append(__path__[0] + "/{PACKAGES}")\n'


def ship(spark: SparkSession) -> None:
    """Send the package to the workers of a session, and to its server if that is elsewhere."""
    if is_remote(spark):
        spark.addArtifacts(f"{_archive()}#{_NAME}", archive=True)
    else:
        spark.sparkContext.addArchive(f"{_archive()}#{_NAME}")


@cache
def _archive() -> Path:
    """Return the archive of this process. It stays until the process ends: workers fetch it at any time."""
    folder = mkdtemp(prefix="everbrook-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_archive(Path(folder, f"{_NAME}.zip"))


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def write_archive(path: Path) -> Path:
    """Write the package and its dependencies."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        home = Path(everbrook.__file__).parent
        for file in _files(home):
            text = file.read_bytes()
            inner = file.relative_to(home)
            archive.writestr(str(inner), _PATH.encode() + text if str(inner) == "__init__.py" else text)
        for found in _closure(NEEDED):
            _add(archive, found)
    return path


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _add(archive: ZipFile, found: Distribution) -> None:
    """Add the files of a package, but no scripts, which lie outside its folder."""
    for file in found.files or ():
        place = Path(str(file.locate()))
        if place.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
            archive.write(place, f"{PACKAGES}/{file}")


def _closure(names: tuple[str, ...]) -> list[Distribution]:
    """Return the packages of those names that are installed here, and those that they need."""
    waiting = list(names)
    found: dict[str, Distribution] = {}
    while waiting:
        name = _SEPARATORS.sub("-", waiting.pop()).lower()
        try:
            found.setdefault(name, distribution(name))
        except PackageNotFoundError:
            continue  # one for other platforms, or other Pythons
        waiting += [each for each in _required(found[name]) if each not in found]
    return list(found.values())


def _required(found: Distribution) -> list[str]:
    """Return the names of what a package always needs."""
    needed = (_REQUIRED.match(each) for each in found.requires or () if "extra ==" not in each)
    return [_SEPARATORS.sub("-", name[0]).lower() for name in needed if name]
