"""The end of a command: its exit code, and one line on standard error with the error and advice.

0    done
1    the server refused the request, or something is damaged
2    wrong use: of the command line, of a setting, or of an input file
3    the stream, bucket, snapshot or subscription does not exist
4    the server can't be reached or is too busy, or the JVM of a pipeline has died: try again
5    the outcome is unknown: the connection broke before the response
6    the storage of a server failed, and the server has ended: start it again
130  interrupted
141  the reader of the output has gone
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

REFUSED = 1
WRONG_USE = 2
NOT_THERE = 3
UNREACHABLE = 4
UNCERTAIN = 5
STORAGE_FAILED = 6
INTERRUPTED = 130
OUTPUT_GONE = 141

_NOT_NOW = {429, 502, 503, 504}
_MISSING = {404, 410}
_NOT_ALLOWED = 401

# Advice for refusals whose message does not say what to do.
_ADVICE = {
    "stream_not_found": "`everbrook ls` lists the streams, `everbrook create` makes one",
    "source_not_found": "`everbrook ls` lists the streams",
    "bucket_not_found": "`everbrook bucket create` makes one",
    "bucket_not_empty": "`everbrook rm --bucket NAME …` deletes its streams",
    "snapshot_not_found": "`everbrook head` shows the latest one",
    "stream_exists": "`everbrook head` shows how it is configured",
    "stream_closed": "`everbrook fork` makes an open stream with its messages",
    "offset_gone": "`everbrook bootstrap` prints the snapshot and the messages after it",
    "payload_too_large": "--lines or --binary split the input into several messages",
    "tail_moved": "`everbrook head` shows its tail",
    "SUBSCRIPTION_NOT_FOUND": "`everbrook sub create` makes one",
    "UNAUTHORIZED": "set EVERBROOK_TOKEN, or pass --token",
    "forbidden": "pass another token with EVERBROOK_TOKEN or --token, or ask the operator of the server for this scope",
}


class Ending(NamedTuple):
    """The exit code of a failure, and its message."""

    code: int
    message: str


def explain(error: Exception) -> Ending | None:
    """Return exit code and message of an error, or None if the error is a bug.

    Classes are named, not imported: an error can only be of a class whose module is loaded already.
    """
    for place, ending_of in _KNOWN.items():
        module, _, name = place.partition(":")
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return ending_of(error)
    if isinstance(error, ValueError) and _raised_in(error).startswith("everbrook.client."):
        return Ending(WRONG_USE, str(error))
    return None


def _raised_in(error: Exception) -> str:
    """Return the module that raised an error. A ValueError of the client is about a value of the user, and no bug."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return str(trace.tb_frame.f_globals.get("__name__")) if trace else ""


def _refusal(error: Exception) -> Ending:
    status, code = getattr(error, "status", 0), getattr(error, "code", "")
    advice = _ADVICE.get("UNAUTHORIZED" if status == _NOT_ALLOWED else code)
    message = _words(error)
    message = f"{message}: {advice}" if advice else message
    if status in _MISSING:
        return Ending(NOT_THERE, message)
    return Ending(UNREACHABLE if status in _NOT_NOW else REFUSED, message)


def _words(error: Exception) -> str:
    """Return the message of the server. The response to a HEAD has no body: then the error names the request."""
    detail: str = getattr(error, "detail", "")
    if detail and not detail.startswith("the server answered"):
        return detail
    return str(error).replace("the server answered 404", "there is no such stream")


def _unreachable(error: Exception) -> Ending:
    return Ending(UNREACHABLE, f"{error}; is the server running? set its address with --url or EVERBROOK_URL")


def _uncertain(error: Exception) -> Ending:
    return Ending(UNCERTAIN, f"{error}: read the tail of the stream before you append again")


def _settings(error: Exception) -> Ending:
    return Ending(WRONG_USE, str(error))


def _storage_failed(error: Exception) -> Ending:
    return Ending(STORAGE_FAILED, str(error))


def _missing(error: Exception) -> Ending:
    return Ending(NOT_THERE, str(error))


def _other(error: Exception) -> Ending:
    return Ending(REFUSED, str(error))


def _system(error: Exception) -> Ending:
    return Ending(REFUSED, getattr(error, "strerror", None) or str(error))


_KNOWN: dict[str, Callable[[Exception], Ending]] = {
    "everbrook.settings.fields:SettingsError": _settings,
    "everbrook.protocol.errors:ProtocolError": _refusal,
    "everbrook.client.errors:Unreachable": _unreachable,
    "everbrook.client.errors:AppendUncertain": _uncertain,
    "everbrook.client.errors:ClientError": _other,
    "everbrook.server.serve:StorageFailed": _storage_failed,
    "everbrook.stack.errors:WrongParts": _settings,
    "everbrook.stack.errors:StackError": _other,
    "everbrook.spark.jobs.model:InvalidJobs": _settings,
    "everbrook.spark.jobs.model:PipelineMissing": _missing,
    "everbrook.spark.jobs.model:PipelineBusy": _other,
    "everbrook.spark.launchers:NoJava": _other,
    "everbrook.spark.postgres.errors:CaptureError": _other,
    "everbrook.spark.lake.lake_errors:LakeError": _other,
    "psycopg:Error": _other,
    "builtins:OSError": _system,
}
