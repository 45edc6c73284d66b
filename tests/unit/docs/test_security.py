"""docs/security.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_weakness_has_tests_that_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = [line for line in page.splitlines() if "tests/" in line and line.startswith("|")]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no {name}"
