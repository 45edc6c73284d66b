"""Fuzzes all readers: python -m tests.fuzz --seed 1 --seconds 60 [TARGET …]

A failing input is shortened, printed, and saved in .fuzz/ with the seed in its name.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import fuzz
from tests.fuzz.targets import open_targets

FOLDER = Path(".fuzz")
MAX_SHOWN_BYTES = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="parts of their names (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, open_targets(Path(folder)) as targets:
        chosen = [
            target
            for target in targets
            if not arguments.targets or any(part in target.name for part in arguments.targets)
        ]
        count, failures = fuzz(chosen, seed=arguments.seed, seconds=arguments.seconds)
    for failure in failures:
        FOLDER.mkdir(exist_ok=True)
        path = (
            FOLDER / f"{failure.target.replace('/', '_').replace(' ', '-')}-seed-{arguments.seed}-case-{failure.case}"
        )
        path.write_bytes(failure.data)
        print(f"{failure.target}: {failure.data[:MAX_SHOWN_BYTES]!r} ({len(failure.data):,} bytes, saved as {path})")
        print(failure.error)
    print(f"seed {arguments.seed}: {count:,} cases of {len(chosen)} targets, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
