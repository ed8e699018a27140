"""`python -m soak.load.leaking everbrook serve …`: a server that leaks, to see that the soak notices."""

import os
import sys
import threading
import time

from everbrook.cli.main import main

PER_SEC_BYTES = 1_000_000


def leak() -> None:
    """Keep memory and files, for ever."""
    kept = []
    while True:
        kept.append((os.urandom(PER_SEC_BYTES), os.open(os.devnull, os.O_RDONLY)))
        time.sleep(1)


if __name__ == "__main__":
    threading.Thread(target=leak, daemon=True).start()
    sys.exit(main(sys.argv[2:]))
