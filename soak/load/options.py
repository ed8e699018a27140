"""What the load is made of, and what all of its processes agree on."""

import resource
from dataclasses import dataclass

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """What the process of the readers is told, in this order."""

    port: int
    readers: int
    streams: int
    drops_per_sec: int
    seed: int


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How much load, for how long."""

    secs: float = 600.0
    readers: int = 5_000
    producers: int = 200
    streams: int = 50
    # How often each producer appends, on average.
    every_secs: float = 2.0
    drops_per_sec: int = 10
    # How much of the time the server is left alone, so that a leak can be seen.
    calm: float = 0.6
    restarts: int = 6
    control: str | None = None


def stream_path(number: int) -> str:
    """Name a stream of the load."""
    return f"/v1/stream/load/{number}"


def raise_open_files() -> None:
    """Open as many files as the system allows: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
