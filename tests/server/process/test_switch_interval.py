"""Threads: those that compute leave the interpreter's lock to the loop soon."""

import subprocess
import sys

SCRIPT = """
import sys
from everbrook.server.serve import run
from everbrook.settings import Settings

def tell(settings):
    print(sys.getswitchinterval())
    raise SystemExit

run(Settings(), open_storage=tell)
"""


def test_the_loop_of_a_server_waits_a_millisecond_for_a_thread() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout == "0.001\n"
