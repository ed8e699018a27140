"""A pipeline with a rule broken: `python -m soak.sync.program FLAW FILE`."""

import sys

from everbrook.cli.main import main
from soak.sync.flaws import break_rule

if __name__ == "__main__":
    break_rule(sys.argv[1])
    sys.exit(main(["pipeline", "run", sys.argv[2]]))
