"""Servers under test are started, watched and stopped from outside."""

import os
import sys
import threading

import pytest

from bench.processes import ServerProcess, StartFailed, free_port, process_cpu_ns, resident_bytes


def constant_server() -> ServerProcess:
    port = free_port()
    return ServerProcess([sys.executable, "-m", "bench.constant", str(port)], {}, port)


def test_a_server_is_gone_after_the_block_even_when_the_block_fails() -> None:
    server = constant_server()

    with pytest.raises(KeyError), server:
        raise KeyError

    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_a_server_that_ends_at_once_is_reported_with_what_it_printed() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such storage')"]

    with pytest.raises(StartFailed, match="no such storage"):
        ServerProcess(command, {}, free_port()).__enter__()


def test_the_environment_of_a_subject_reaches_its_server() -> None:
    command = [sys.executable, "-c", "import os; raise SystemExit(os.environ['DS_LIMITS__MAX_MEMORY_BYTES'])"]

    with pytest.raises(StartFailed, match="12345"):
        ServerProcess(command, {"DS_LIMITS__MAX_MEMORY_BYTES": "12345"}, free_port()).__enter__()


def test_cpu_time_counts_threads_that_have_ended() -> None:
    before_ns = process_cpu_ns(os.getpid())
    thread = threading.Thread(target=lambda: sum(range(3_000_000)))
    thread.start()
    thread.join()

    assert process_cpu_ns(os.getpid()) - before_ns > 10_000_000


def test_resident_memory_is_in_bytes() -> None:
    assert 5_000_000 < resident_bytes(os.getpid()) < 4_000_000_000
