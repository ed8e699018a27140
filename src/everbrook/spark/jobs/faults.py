"""Faults: what a failed query says, in words for a person, and whether to start it again.

Spark wraps what went wrong in Python, in another process as often as not, into long text. The last line of the last
traceback in it is what happened. A class of errors that a restart can't mend says so: `restartable = False`, or stands
in the list here. All others may pass: a server comes back, a disk is emptied, a password is put right.
"""

import re
from importlib import import_module

from msgspec import Struct

_RAISED = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t]+[^\n]*\n)+(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<words>.*?))?"
    r"(?=\n\n|\n?[ \t]*SQLSTATE:|\n\tat |\n*\Z|\nDriver stacktrace)",
    re.DOTALL,
)
_SPARK_ENDS = re.compile(r"\s*(?:SQLSTATE:|=== Streaming Query ===|JVM stacktrace:).*", re.DOTALL)
_SPARK_BEGINS = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL)
_LONGEST = 1000

_ANEW = "`everbrook pipeline reset FILE {job}` lets it begin anew"
_LASTING = {
    "everbrook.spark.given.InvalidOption": "",
    "everbrook.spark.losses.DataLoss": f"{_ANEW}, fail_on_data_loss = false lets it go on without them",
    "everbrook.spark.positions.InvalidPositions": _ANEW,
    "everbrook.spark.messages.InvalidRow": "",
    "everbrook.spark.appending.BatchTooLarge": "",
    "everbrook.spark.appending.QuerySuperseded": _ANEW,
    "everbrook.spark.appending.StreamDeleted": _ANEW,
    "everbrook.spark.capture.errors.CaptureRefused": "",
    "everbrook.client.errors.Unsupported": "",
    "everbrook.protocol.errors.StreamClosed": ("a closed stream takes nothing more: choose another, and reset the job"),
    "everbrook.protocol.errors.ContentTypeMismatch": "",
}
"""Errors that a restart can't mend, with the way out where their own words do not say it."""
_OF_SPARK = {"AnalysisException", "ParseException", "IllegalArgumentException"}
"""What Spark itself says of a query that can't be right, whatever happens."""


class Fault(Struct, frozen=True):
    """What went wrong, and whether a restart may help."""

    words: str
    restartable: bool


def diagnose(error: BaseException, job: str) -> Fault:
    """Find out what is wrong with a job."""
    kind, words = _raised(error)
    if kind is None:
        return Fault(words, type(error).__name__ not in _OF_SPARK)
    found = _class(kind)
    names = [f"{cls.__module__}.{cls.__qualname__}" for cls in found.__mro__] if found is not None else [kind]
    lasting = next((name for name in names if name in _LASTING), None)
    advice = _LASTING[lasting].format(job=job) if lasting is not None else ""
    name = kind.rpartition(".")[2]
    return Fault(
        _shortened(f"{words or name}{f': {advice}' if advice else ''}"),
        lasting is None and getattr(found, "restartable", True),
    )


def _raised(error: BaseException) -> tuple[str | None, str]:
    """Give the class and the words of an error in Python, wherever it was raised. Of Spark's own only the words."""
    text = str(error)
    found = list(_RAISED.finditer(text))
    if found:
        return found[-1]["kind"], _one_line(found[-1]["words"] or "")
    if _of_spark(error):
        return None, _shortened(_one_line(_SPARK_ENDS.sub("", _SPARK_BEGINS.sub("", text))) or type(error).__name__)
    return f"{type(error).__module__}.{type(error).__qualname__}", _one_line(text)


def _of_spark(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}


def _class(kind: str) -> type | None:
    """Find a class of ours by its name; nothing else is imported for a message."""
    module, _, name = kind.rpartition(".")
    if not module.startswith("everbrook."):
        return None
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
