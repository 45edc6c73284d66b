"""Compares this working tree with another commit: suites of both run in turn, and the ratios of their figures are printed.

make bench-compare BASE=<commit> [SUITES="pipeline state"] [ROUNDS=3]

Both sides run on the same machine within minutes and alternate, so that figures other than ratios can be compared too, such as
sentences per second.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.compare.run import CompareError, compare_commits

DEFAULT_SUITES = ("pipeline", "state")
DEFAULT_ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with, such as main or HEAD~1")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"default: {' '.join(DEFAULT_SUITES)}")
    parser.add_argument("--rounds", type=int, default=DEFAULT_ROUNDS, help=f"of each side (default: {DEFAULT_ROUNDS})")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    try:
        lines = compare_commits(Path.cwd(), arguments.base, arguments.suites or DEFAULT_SUITES, rounds=arguments.rounds)
    except CompareError as error:
        sys.exit(str(error))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
