"""Runs the benchmarks, prints a table and writes .bench/results.json.

Each figure is a ratio of two things measured in turn in the same run: machines are shared and noisy, seconds are not
comparable between two runs, ratios are.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

SUITES = ("scoring", "pipeline", "stream", "peers")
RESULTS = Path(".bench/results.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which to run (default: all but peers)")
    chosen = parser.parse_args().suites or [suite for suite in SUITES if suite != "peers"]
    results: list[dict[str, Any]] = []
    for suite in chosen:
        print(f"measuring {suite} …", file=sys.stderr, flush=True)
        results += importlib.import_module(f"tests.bench.{suite}").run()
    # A suite that ran in an environment of its own must not wipe out what the others found.
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    names = {result["name"] for result in results}
    RESULTS.parent.mkdir(exist_ok=True)
    merged = [result for result in kept if result["name"] not in names] + results
    RESULTS.write_text(json.dumps(merged, indent=2) + "\n")
    width = max(len(result["name"]) for result in results)
    for result in results:
        print(f"{result['name']:<{width}}  {result['ratio']:8.2f}  {result['detail'].get('what', '')}")
    print(f"written to {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
