"""Chaos runs: `python -m tests.chaos --seed 1 --runs 20 [--brokers 3]`. Prints one row per run; fails if one run fails.

`python -m tests.chaos standstill --faults 20` measures how long a single fault delays a partition.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos import standstill
from tests.chaos.kafka_chaos import ChaosReport, find_impossible_faults, run_chaos
from tests.chaos.plan import LONG_PROFILES, SHORT_PROFILES, FaultKind, add_upgrades, without

COLUMNS = ("seed", "brokers", "messages", *FaultKind, "exits", "uncommitted", "seconds", "stall", "verdict")
WIDTH = 8


def format_row(report: ChaosReport) -> str:
    exits = ",".join(f"{count}×{reason}" for reason, count in sorted(report.worker_exits.items())) or "-"
    cells = (
        report.seed,
        report.brokers,
        report.messages,
        *(report.faults.get(kind, 0) for kind in FaultKind),
        exits,
        report.uncommitted,
        f"{report.seconds:.0f}",
        f"{report.longest_stall.seconds:.1f}",
        "FAILED" if report.problems else "exact",
    )
    return "  ".join(f"{cell!s:>{WIDTH}}" for cell in cells)


def main() -> int:
    if sys.argv[1:2] == ["standstill"]:
        return standstill.main(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run; each further run adds one")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=1, choices=sorted(LONG_PROFILES))
    parser.add_argument("--short", action="store_true", help="few faults, as in the tests")
    parser.add_argument(
        "--from",
        dest="earlier",
        metavar="COMMIT",
        help="start the workers with this commit, and upgrade them one by one",
    )
    parser.add_argument("--keep", action="store_true", help="keep the logs of successful runs too")
    arguments = parser.parse_args()
    profile = (SHORT_PROFILES if arguments.short else LONG_PROFILES)[arguments.brokers]
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    impossible = find_impossible_faults(Path(tempfile.gettempdir()), external_brokers=servers is not None)
    for kind in impossible.keys() & profile.faults.keys():
        print(f"without {kind} faults: {impossible[kind]}")
    profile = without(add_upgrades(profile) if arguments.earlier else profile, impossible)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    faults: Counter[str] = Counter()
    failed = 0
    print("  ".join(f"{name:>{WIDTH}}" for name in COLUMNS), flush=True)
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        folder = Path(tempfile.mkdtemp(prefix=f"labelwatch-chaos-{seed}-"))
        report = run_chaos(folder, seed=seed, profile=profile, servers=servers, earlier_commit=arguments.earlier)
        print(format_row(report), flush=True)
        faults.update(report.faults)
        if report.problems:
            failed += 1
            print("\n".join(f"  {problem}" for problem in report.problems))
        if report.problems or arguments.keep:
            stall = report.longest_stall
            print(f"  partition {stall.partition} stalled for {stall.seconds:.1f} s from {stall.since:%H:%M:%S.%f} on")
            print(f"  logs are in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    totals = ", ".join(f"{faults[kind]} {kind}" for kind in FaultKind)
    print(f"{arguments.runs - failed} of {arguments.runs} runs exact; faults: {totals}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
