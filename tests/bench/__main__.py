"""Runs the benchmarks, prints a table and writes .bench/results.json.

Each figure is a ratio of two things measured in turn in the same run: machines are shared and noisy, seconds are not
comparable between two runs, ratios are.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.bench.machine import describe_machine

SUITES = (
    "scoring",
    "pipeline",
    "graphs",
    "memory",
    "training",
    "trainer",
    "reviewers",
    "acceptance",
    "annotators",
    "stream",
    "rest",
    "state",
    "cli_start",
    "own_labels",
    "peers",
    "services",
    "scale",
)
# They need data or packages that are not part of this repo, or minutes that not every run has.
ONLY_BY_NAME = {"own_labels", "peers", "scale", "services"}
MODULES = {"scale": "scale.suite", "services": "services.suite"}  # suites of several modules
RESULTS_PATH = Path(".bench/results.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help=f"of {', '.join(SUITES)} (default: all but {', '.join(sorted(ONLY_BY_NAME))})",
    )
    chosen = parser.parse_args().suites or [suite for suite in SUITES if suite not in ONLY_BY_NAME]
    if unknown := set(chosen) - set(SUITES):
        parser.error(f"there is no suite {', '.join(sorted(unknown))}: use {', '.join(SUITES)}")
    found: list[dict[str, Any]] = []
    failed = []
    for suite in chosen:
        print(f"measuring {suite} …", file=sys.stderr, flush=True)
        try:
            results = importlib.import_module(f"tests.bench.{MODULES.get(suite, suite)}").run()
        except Exception:  # noqa: BLE001 - the figures of the other suites are worth having all the same
            traceback.print_exc()
            failed.append(suite)
            continue
        save_results(suite, results)
        found += results
    width = max((len(result["name"]) for result in found), default=0)
    for result in found:
        print(f"{result['name']:<{width}}  {result['ratio']:8.2f}  {result['detail'].get('what', '')}")
    print(f"written to {RESULTS_PATH}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def save_results(suite: str, results: list[dict[str, Any]]) -> None:
    """A suite that ran at another time, or in an environment of its own, keeps the figures it has."""
    before = json.loads(RESULTS_PATH.read_text()) if RESULTS_PATH.exists() else []
    where = {"suite": suite, "machine": describe_machine()}
    RESULTS_PATH.parent.mkdir(exist_ok=True)
    merged = [result for result in before if result.get("suite") != suite] + [{**each, **where} for each in results]
    RESULTS_PATH.write_text(json.dumps(merged, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
