"""Writes docs/benchmarks.json, docs/benchmarks.md and its plots from what the benchmarks measured.

Figures of suites that were not measured stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.page.figures import UnreadableResultsError, read_growth, read_results, read_snapshot, write_snapshot
from tests.bench.page.render import render_files

SNAPSHOT = "benchmarks.json"


def write_page(docs: Path, measured: Path) -> None:
    """`measured` is the folder of results.json and growth.json. What is missing there stays as it is."""
    snapshot = read_snapshot(docs / SNAPSHOT)
    for found in (read_results(measured / "results.json"), read_growth(measured / "growth.json")):
        snapshot = snapshot.merge(found)
    write_snapshot(docs / SNAPSHOT, snapshot)
    for name, text in render_files(snapshot).items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the folder of the page (default: docs)")
    parser.add_argument("--results", type=Path, default=Path(".bench"), help="what was measured (default: .bench)")
    arguments = parser.parse_args()
    try:
        write_page(arguments.docs, arguments.results)
    except UnreadableResultsError as error:
        sys.exit(str(error))
    print(f"written: {arguments.docs / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
