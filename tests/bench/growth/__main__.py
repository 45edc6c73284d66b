"""Measures how costs grow: prints a table, writes .bench/growth.json and a picture of each curve to .bench/growth/.

Each curve has a module of its own. Its `measure(sizes)` returns curves.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.growth.curves import format_table
from tests.bench.growth.plots import render_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.growth.curves import Curve

MODULES = ("sentences", "words", "classes", "partitions", "datasets", "consoles", "decisions", "queue")
RESULTS_PATH = Path(".bench/growth.json")
PLOTS_FOLDER = Path(".bench/growth")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(MODULES)} (default: all)")
    parser.add_argument(
        "--max-size", type=int, help="leave out larger sizes, such as 100000 for a run of a few minutes"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", help="measure these sizes only; the points of others stay as they were measured"
    )
    options = parser.parse_args()
    if unknown := set(options.modules) - set(MODULES):
        parser.error(f"there is no module {', '.join(sorted(unknown))}: use {', '.join(MODULES)}")
    found: list[dict[str, Any]] = []
    failed = []
    for name in options.modules or MODULES:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        started = time.monotonic()
        try:
            measured = measure(name, max_size=options.max_size, sizes=options.sizes)
            curves = [curve.to_json() for curve in (add_points(measured) if options.sizes else measured)]
        except Exception:  # noqa: BLE001 - the other curves are worth having all the same
            traceback.print_exc()
            failed.append(name)
            continue
        print(f"{name} took {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        save_curves(curves)
        found += curves
    print(format_table(found))
    print(f"written to {RESULTS_PATH} and {PLOTS_FOLDER}/")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def measure(name: str, *, max_size: int | None = None, sizes: Sequence[int] | None = None) -> Sequence[Curve]:
    module = importlib.import_module(f"tests.bench.growth.{name}")
    chosen = [size for size in sizes or module.SIZES if max_size is None or size <= max_size]
    curves: Sequence[Curve] = module.measure(chosen)
    return curves


def add_points(curves: Sequence[Curve], path: Path = RESULTS_PATH) -> list[Curve]:
    """The curves with the points of other sizes that the file has."""
    before = {curve["name"]: curve["points"] for curve in json.loads(path.read_text())} if path.exists() else {}
    return [
        replace(
            curve,
            points=sorted(
                {point["x"]: point for point in (*before.get(curve.name, ()), *curve.points)}.values(),
                key=lambda point: point["x"],
            ),
        )
        for curve in curves
    ]


def save_curves(curves: Sequence[dict[str, Any]], path: Path = RESULTS_PATH, plots: Path = PLOTS_FOLDER) -> None:
    """Curves that were measured at another time stay."""
    before = json.loads(path.read_text()) if path.exists() else []
    names = {curve["name"] for curve in curves}
    plots.mkdir(parents=True, exist_ok=True)
    merged = [curve for curve in before if curve["name"] not in names] + list(curves)
    path.write_text(json.dumps(merged, indent=2) + "\n")
    for curve in curves:
        picture = render_curve(curve)
        if picture is not None:
            (plots / f"{curve['name']}.svg").write_text(picture)


if __name__ == "__main__":
    sys.exit(main())
