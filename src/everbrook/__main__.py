"""``python -m everbrook`` is the command line."""

import sys

from everbrook.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
