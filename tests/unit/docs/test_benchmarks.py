"""The page of benchmarks is what its generator makes of the snapshot beside it."""

from __future__ import annotations

from tests.bench.page.figures import read_snapshot
from tests.bench.page.render import render_files
from tests.support.docs_pages import DOCS


def test_the_page_is_generated_from_the_snapshot() -> None:
    for name, text in render_files(read_snapshot(DOCS / "benchmarks.json")).items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run `make bench-page`"
