"""The page of benchmarks is what its generator makes of the snapshot beside it."""

from __future__ import annotations

import re

import pytest

from tests.bench.page.figures import read_snapshot
from tests.bench.page.render import find_speeds, render_files
from tests.bench.page.svg import format_value
from tests.support.docs_pages import DOCS


def test_the_page_is_generated_from_the_snapshot() -> None:
    for name, text in render_files(read_snapshot(DOCS / "benchmarks.json")).items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run `make bench-page`"


def test_the_sizing_of_operations_has_the_speeds_of_the_snapshot() -> None:
    sizing = (DOCS / "operations.md").read_text(encoding="utf-8").partition("## Sizing\n")[2].partition("\n## ")[0]
    for speed, figure in find_speeds(read_snapshot(DOCS / "benchmarks.json").figures):
        if figure.suite in {"rest", "services", "stream"}:
            assert f" {format_value(figure.rates[speed.rate].median)} " in sizing, speed.what


@pytest.mark.parametrize(("name", "label"), [("reviewers_sample", "planted"), ("reviewers_systematic", "systematic")])
def test_the_page_on_review_has_the_figures_of_the_ranker(name: str, label: str) -> None:
    page = (DOCS / "review.md").read_text(encoding="utf-8")
    (figure,) = (each for each in read_snapshot(DOCS / "benchmarks.json").figures if each.name == name)
    pairs = re.findall(r"0(\.\d+)/0(\.\d+)", figure.what)
    for way, row in zip(("with the ranker", "without"), zip(*pairs, strict=True), strict=True):
        assert f"| {label}, {way} | {' | '.join(row)} |" in page
