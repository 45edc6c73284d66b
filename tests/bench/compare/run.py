"""Runs suites in two checkouts in turn and compares what they measure."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.page.figures import iterate_rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# The code of a suite is that of its commit, but not this: so a commit that has no `compare` can be the base.
RUN_SUITE = """
import importlib, json, sys
results = importlib.import_module(f"tests.bench.{sys.argv[1]}").run()
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(results, file)
"""
BASE, HEAD = "base", "head"

Values = dict[str, float]


class CompareError(Exception):
    """The comparison can't be made. The message says what to change."""


def compare_commits(root: Path, base: str, suites: Sequence[str], *, rounds: int) -> list[str]:
    """A table of the working tree's figures over those of the base."""
    commit = resolve_commit(root, base)
    check_suites(root, commit, suites)
    measured: dict[str, list[Values]] = {BASE: [], HEAD: []}
    with check_out(root, commit) as worktree:
        for number in range(rounds):
            for side, folder in ((BASE, worktree), (HEAD, root)):
                print(f"round {number + 1} of {rounds}: {side} …", file=sys.stderr, flush=True)
                measured[side].append(measure_suites(folder, suites))
    return format_table(base, commit, measured)


def resolve_commit(root: Path, name: str) -> str:
    try:
        return _run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
    except subprocess.CalledProcessError as error:
        raise CompareError(f"there is no commit {name!r}: name a commit, a branch or a tag in BASE") from error


def check_suites(root: Path, commit: str, suites: Sequence[str]) -> None:
    for suite in suites:
        path = f"tests/bench/{suite}.py"
        if not (root / path).is_file():
            raise CompareError(f"there is no suite {suite!r} in the working tree: {path} is missing")
        try:
            _run_git(root, "cat-file", "-e", f"{commit}:{path}")
        except subprocess.CalledProcessError as error:
            raise CompareError(
                f"the base {commit[:10]} has no suite {suite!r}: choose a later base or other SUITES"
            ) from error


@contextmanager
def check_out(root: Path, commit: str) -> Iterator[Path]:
    """A temporary worktree of the commit."""
    with tempfile.TemporaryDirectory(prefix="labelwatch-base-") as scratch:
        folder = Path(scratch) / "tree"
        _run_git(root, "worktree", "add", "--quiet", "--detach", str(folder), commit)
        try:
            yield folder
        finally:
            _run_git(root, "worktree", "remove", "--force", str(folder))


def measure_suites(folder: Path, suites: Sequence[str]) -> Values:
    found: Values = {}
    for suite in suites:
        for result in run_suite(folder, suite):
            found[result["name"]] = result["ratio"]
            for name, rate in iterate_rates(result["detail"]):
                found[f"{result['name']}: {name}"] = rate.median
    return found


def run_suite(folder: Path, suite: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "results.json"
        # The installed package is that of the working tree: the folder comes first.
        run = subprocess.run(
            [sys.executable, "-c", RUN_SUITE, suite, str(out)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            check=False,
        )
        if run.returncode:
            raise CompareError(f"the suite {suite!r} failed in {folder}: its message stands above")
        results: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))
        return results


def format_table(base: str, commit: str, measured: Mapping[str, Sequence[Values]]) -> list[str]:
    """Each figure of both sides; the ratio is that of the medians, the spread that of the rounds."""
    rounds = len(measured[HEAD])
    names = [name for name in measured[HEAD][0] if name in measured[BASE][0]]
    width = max((len(name) for name in names), default=0)
    lines = [
        f"working tree over {base} ({commit[:10]}), {rounds} rounds in turn",
        f"{'figure':<{width}}  {'base':>10}  {'head':>10}  {'ratio':>7}  spread",
    ]
    for name in names:
        before, after = ([values[name] for values in measured[side]] for side in (BASE, HEAD))
        ratios = [new / old for old, new in zip(before, after, strict=True) if old]
        if not ratios:
            lines.append(f"{name:<{width}}  {statistics.median(before):10.4g}  {statistics.median(after):10.4g}")
            continue
        ratio = statistics.median(after) / statistics.median(before)
        lines.append(
            f"{name:<{width}}  {statistics.median(before):10.4g}  {statistics.median(after):10.4g}  {ratio:7.3f}  "
            f"{min(ratios):.3f} to {max(ratios):.3f}"
        )
    for side, other in ((HEAD, BASE), (BASE, HEAD)):
        lines += [f"only in {side}: {name}" for name in measured[side][0] if name not in measured[other][0]]
    return lines


def _run_git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout
