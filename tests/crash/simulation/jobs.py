"""Background work that happens when the test says so, in its thread, so that every failure replays."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Job(Future[Result]):
    """Work that waits for its turn. Who asks for its result makes it happen."""

    def __init__(self, work: Callable[[], Result]) -> None:
        super().__init__()
        self._work = work

    def run(self) -> None:
        """Do it, if it has not been done."""
        if not self.done():
            try:
                self.set_result(self._work())
            except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> Result:
        self.run()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.run()
        return super().exception(timeout)


class Inline(Executor):
    """An executor that runs work when it is submitted."""

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)
        return future


class Jobs(Executor):
    """Stands in for a pool of threads."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] = []

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Job[Result]:
        job = Job(lambda: fn(*args, **kwargs))
        self._waiting.append(job.run)
        return job

    def run(self) -> bool:
        """Do what waits. Tells whether something did."""
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            job()
        return bool(waiting)

    def step(self) -> None:
        """Do the first of what waits."""
        if self._waiting:
            self._waiting.pop(0)()

    def forget(self) -> None:
        """Drop what waits, as a crash does."""
        self._waiting.clear()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002
        if cancel_futures:
            self.forget()
        self.run()
