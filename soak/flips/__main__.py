"""`python -m soak.flips`: damage stores. `python -m soak flips` is the same beside the other parts."""

import argparse
import secrets
import sys

from soak.flips.damage import KINDS
from soak.flips.soak import soak_flips
from soak.flips.workload import MODES
from soak.ledger import PromiseBroken
from soak.progress import say


def main() -> int:
    """Run the cases; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="soak.flips")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--cases", type=int, default=1_000, help="of each mode (default 1000)")
    parser.add_argument("--seconds", type=float, help="of each mode, in place of a number of cases")
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument("--files", type=lambda text: tuple(text.split(",")), default=(), help=", ".join(KINDS))
    options = parser.parse_args()
    say(f"seed {options.seed}")
    try:
        soak_flips(
            options.seed,
            options.modes,
            cases=options.cases,
            secs=options.seconds,
            case=options.case,
            kinds=options.files,
        )
    except PromiseBroken as error:
        print(error, file=sys.stderr)  # noqa: T201 - for a person
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
