"""The Python session of somebody who follows a page: names live from block to block, and `await` may stand anywhere."""

import ast
import asyncio
import inspect
import io
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from types import FrameType, TracebackType
from typing import Any, Self

import psycopg
from pyspark import SparkContext
from pyspark.sql import SparkSession

from everbrook import AsyncClient, Client
from everbrook.stack.postgres import Postgres
from tests.kit.spark_session import end_shared_session
from tests.tooling.docs.shown import promised

PATIENCE_SECS = 240.0  # a session of Spark on a machine that has other work
POLL_SECS = 0.05

_JAVA_ENDS_WITHIN_SECS = 30
_SHOW = "__show__"


class Interpreter:
    """Runs blocks in one namespace. What an expression with a promise behind it gives is printed, as at a prompt."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", _SHOW: _show}
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for value in reversed(list(self.names.values())):
            if isinstance(value, Client | psycopg.Connection):
                value.close()
            elif isinstance(value, AsyncClient):
                self._runner.run(value.close())
            elif isinstance(value, SparkSession | Postgres):
                value.stop()
        self.names.clear()
        self._runner.close()

    def run(self, code: str, where: str, line: int, interrupt_when: Callable[[str], bool] | None = None) -> str:
        """Run a block. Gives what it printed."""
        compiled = _compile(code, where, line)
        with redirect_stdout(io.StringIO()) as output, _interrupted(output.getvalue, interrupt_when):
            result = eval(compiled, self.names)  # noqa: S307 - our own page
            if inspect.iscoroutine(result):
                self._runner.run(result)
        return output.getvalue()


def end_java() -> None:
    """End the Java of Spark, which hands its folder and its environment on to every session that begins in it."""
    end_shared_session()
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_JAVA_ENDS_WITHIN_SECS)
        SparkContext._gateway = SparkContext._jvm = None


def _show(value: object) -> None:
    if value is not None:
        print(repr(value))  # noqa: T201 - what a prompt does


def _compile(code: str, where: str, line: int) -> Any:  # noqa: ANN401 - code, or what the compiler gives for it
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    module = compile(code, where, "exec", flags | ast.PyCF_ONLY_AST)
    lines = [*code.splitlines(), ""]
    for statement in ast.walk(module):
        if isinstance(statement, ast.Expr) and _promises(lines, statement.end_lineno or 1):
            call = ast.Call(ast.Name(_SHOW, ast.Load()), [statement.value], [])
            statement.value = ast.copy_location(call, statement.value)
    ast.increment_lineno(ast.fix_missing_locations(module), line - 1)
    return compile(module, where, "exec", flags)


def _promises(lines: list[str], line: int) -> bool:
    """Whether a promise stands behind a statement that ends in a line, or right below it."""
    return bool(promised(lines[line - 1]) or (lines[line].lstrip().startswith("#") and promised(lines[line])))


@contextmanager
def _interrupted(printed: Callable[[], str], when: Callable[[str], bool] | None) -> Iterator[None]:
    """Bound the time of what runs. With a claim, press Ctrl-C as soon as it holds for what was printed."""
    deadline = time.monotonic() + PATIENCE_SECS

    def look(_signal: int, _frame: FrameType | None) -> None:
        if when and when(printed()):
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.raise_signal(signal.SIGINT)
        if time.monotonic() > deadline:
            raise TimeoutError(f"not finished after {PATIENCE_SECS:.0f} s, having printed: {printed()}")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, POLL_SECS, POLL_SECS)
    try:
        yield
    except KeyboardInterrupt:
        if not when:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
