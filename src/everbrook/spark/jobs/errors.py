"""What can be wrong with a pipeline, in one line that says where, what, and what to do."""


class InvalidJobs(Exception):
    """A file of jobs can't be used; the message begins with the file and the key."""

    def __init__(self, file: str, key: str, problem: str) -> None:
        super().__init__(f"{file}: {key}: {problem}" if key else f"{file}: {problem}")
        self.key = key
        self.problem = problem


class PipelineBusy(Exception):
    """Another process runs the jobs of the same checkpoints."""


class PipelineMissing(Exception):
    """Nothing is known of a pipeline, or a job is not in its file."""


class OutOfReach(Exception):
    """A server or a database does not answer now. It may do so later."""


class JvmLost(Exception):
    """The JVM died while Spark was being started."""
