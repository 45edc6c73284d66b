"""`make bench-compare`, on a small repository with a tiny suite."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.bench.compare.run import CompareError, compare_commits, format_table

if TYPE_CHECKING:
    from pathlib import Path

# What a suite imports must be the code of its own commit, not the one that is installed.
SUITE = """
from service.speed import SPEED

def run():
    return [{"name": "tiny", "ratio": SPEED, "detail": {"what": "x", "sentences_per_s": [10 * SPEED]}}]
"""


def run_git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def commit_speed(root: Path, speed: float) -> None:
    (root / "service" / "speed.py").write_text(f"SPEED = {speed}\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", f"speed {speed}")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "tests" / "bench").mkdir(parents=True)
    (root / "service").mkdir()
    (root / "service" / "__init__.py").touch()
    run_git(root, "init", "-q")
    (root / "tests" / "bench" / "tiny.py").write_text(SUITE)
    commit_speed(root, 2.0)
    (root / "tests" / "bench" / "new.py").write_text(SUITE)
    commit_speed(root, 3.0)
    return root


def test_both_commits_run_their_own_code(repository: Path) -> None:
    lines = compare_commits(repository, "HEAD~1", ["tiny"], rounds=2)
    cells = {line.rsplit(maxsplit=6)[0].strip(): line.split()[-6:] for line in lines[2:]}
    assert cells["tiny"] == ["2", "3", "1.500", "1.500", "to", "1.500"]
    assert cells["tiny: sentences_per_s"] == ["20", "30", "1.500", "1.500", "to", "1.500"]
    assert "2 rounds" in lines[0]


def test_changes_that_are_not_committed_are_measured(repository: Path) -> None:
    (repository / "service" / "speed.py").write_text("SPEED = 8.0\n")
    assert " 4.000 " in compare_commits(repository, "HEAD~1", ["tiny"], rounds=1)[2]


def test_the_temporary_worktree_is_removed(repository: Path) -> None:
    compare_commits(repository, "HEAD~1", ["tiny"], rounds=1)
    assert len(run_git(repository, "worktree", "list").splitlines()) == 1
    assert run_git(repository, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("base", "suite", "message"),
    [
        ("no-such-commit", "tiny", "there is no commit 'no-such-commit'"),
        ("--all", "tiny", "there is no commit '--all'"),
        ("HEAD~1", "missing", "there is no suite 'missing' in the working tree"),
        ("HEAD~1", "new", "has no suite 'new'"),
    ],
)
def test_what_can_not_be_compared_is_refused_by_name(repository: Path, base: str, suite: str, message: str) -> None:
    with pytest.raises(CompareError, match=message):
        compare_commits(repository, base, [suite], rounds=1)


def test_a_suite_that_fails_is_named_and_the_worktree_removed(repository: Path) -> None:
    (repository / "service" / "speed.py").write_text("raise RuntimeError('broken')\n")
    with pytest.raises(CompareError, match="the suite 'tiny' failed"):
        compare_commits(repository, "HEAD~1", ["tiny"], rounds=1)
    assert len(run_git(repository, "worktree", "list").splitlines()) == 1


def test_figures_of_one_side_are_listed() -> None:
    lines = format_table("main", "a" * 40, {"base": [{"a": 1.0, "old": 1.0}], "head": [{"a": 0.5, "new": 1.0}]})
    assert lines[-2:] == ["only in head: new", "only in base: old"]
