"""The pictures of README and docs/: pages of the console with the sample data. `make docs-images` stores them in docs/images."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.harness import (
    ROOT,
    SAMPLE,
    BrowserHarness,
    read_sample,
    run_service,
    take_screenshot,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, ViewportSize

    from tests.browser.harness import ServiceProcess

ANNOTATORS = ("kim", "ada", "luis")
N_DECISIONS = 26  # enough for the ranker
VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
TALL_VIEWPORT: ViewportSize = {"width": 1280, "height": 1060}


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with one dataset, which three people have annotated, and some decisions."""
    with run_service(tmp_path_factory.mktemp("pictures"), sample=False) as service:
        service.send(
            *(
                {**sentence, "dataset": "news", "id": f"{number}", "annotator": ANNOTATORS[number % len(ANNOTATORS)]}
                for number, sentence in enumerate(read_sample(), 1)
            )
        )

        def has_learned() -> bool:
            datasets = service.call("GET", "/v1/datasets")["datasets"]
            return [each["sentences"] for each in datasets] == [len(read_sample())]

        wait_for(has_learned, "learning the sample")
        items = service.list_items("news")
        for number, item in enumerate(items[-N_DECISIONS:]):
            service.decide("news", item["id"], ("marta", "joe")[number % 2], "ok" if number % 5 == 4 else "error")
        wait_for(lambda: len(service.list_items("news", state="decided")) == N_DECISIONS, "the decisions")
        yield service


@pytest.fixture
def harness(browser: Browser, own_service: ServiceProcess) -> Iterator[BrowserHarness]:
    browser_harness = BrowserHarness(browser, own_service)
    yield browser_harness
    browser_harness.close()


def test_queue(harness: BrowserHarness) -> None:
    page = harness.open_page("#/queue", viewport=VIEWPORT)
    expect(page.locator(".entry").nth(5)).to_be_visible()
    expect(page.locator(".words .w.doubtful").first).to_be_visible()
    take_screenshot(page, "docs-queue")


def test_overview(harness: BrowserHarness) -> None:
    page = harness.open_page("#/overview?dataset=news", viewport=TALL_VIEWPORT)
    expect(page.locator("#scores rect.bar").first).to_be_visible()
    expect(page.locator("#annotators tbody tr")).to_have_count(len(ANNOTATORS))
    take_screenshot(page, "docs-overview")


def test_report(browser: Browser, tmp_path: Path) -> None:
    """The report of an audit is a file: it needs no service."""
    report = tmp_path / "report.html"
    command = [sys.executable, "-c", "from service.cli.main import main; main()", "score"]
    subprocess.run(
        [*command, str(SAMPLE.relative_to(ROOT)), "--report", str(report)], cwd=ROOT, check=True, capture_output=True
    )
    page = browser.new_page(viewport=VIEWPORT)
    page.goto(report.as_uri())
    expect(page.locator("h1")).to_have_text("models/sample/sample.tsv")
    take_screenshot(page, "docs-report")
    page.close()
