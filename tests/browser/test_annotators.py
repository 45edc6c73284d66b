"""The annotators in the console: the table with its denominator, and an annotator's own page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from tests.browser.harness import BrowserHarness


def test_the_table_shows_the_figures_of_the_api(harness: BrowserHarness) -> None:
    service = harness.service
    figures = service.call("GET", "/v1/datasets/sample/annotators")
    [bo] = figures["annotators"]
    page = harness.open_page("#/overview?dataset=sample")
    section = page.locator("#annotators")
    cells = section.locator("tbody tr").first.locator("td")
    expect(cells.nth(0)).to_have_text(str(bo["sentences"]))
    expect(cells.nth(5)).to_have_text(f"{bo['f1']:.2f} ({bo['low']:.2f}–{bo['high']:.2f})")
    expect(section).to_contain_text("It measures agreement with the model")
    expect(section.locator(".note").last).to_have_css("text-align", "start")
    section.get_by_role("link", name="bo", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Annotations of bo")
    expect(page.locator("#weeks tbody tr")).to_have_count(len(bo["weeks"]))
    take_screenshot(page, "annotations-of-one", full_page=True)


def test_the_list_of_keys_opens_at_its_top(harness: BrowserHarness) -> None:
    page = harness.open_page("#/overview?dataset=sample", viewport={"width": 900, "height": 320})
    expect(page.locator("#annotators tbody tr").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_focused()
    expect(page.get_by_role("heading", name="Keys")).to_be_in_viewport()


def test_an_annotator_sees_own_items_with_corrections_and_notes(harness: BrowserHarness) -> None:
    service = harness.service
    service.fill_queue("own", 6)
    kims = [item for item in service.list_items("own") if item["annotator"] == "kim"]
    adas = next(item for item in service.list_items("own") if item["annotator"] == "ada")
    labels = ["O"] * len(kims[0]["tokens"])
    service.decide("own", kims[0]["id"], "Ana", "error", labels=labels, note="No entity <b>here</b>")
    service.decide("own", kims[1]["id"], "Ana", "ok")
    wait_for(lambda: len(service.list_items("own", state="decided")) == 2, "the decisions")
    page = harness.open_page("#/mine?dataset=own", key=service.annotator_key)
    expect(page.get_by_role("heading", level=1)).to_have_text("My annotations")
    expect(page.locator("#to-mine")).to_have_attribute("aria-current", "page")
    wrong = page.locator("#wrong li")
    expect(wrong).to_have_count(1)
    expect(wrong.locator("blockquote")).to_have_text("No entity <b>here</b>")
    expect(wrong).to_contain_text(re.compile("→ no entity"))
    expect(wrong).not_to_contain_text(re.compile("[BI]-"))
    mark = wrong.locator("mark").first
    assert mark.evaluate("mark => getComputedStyle(mark).backgroundColor") != "rgb(255, 255, 0)"
    expect(page.locator("#right li")).to_have_attribute("data-id", kims[1]["id"])
    expect(page.locator("#doubted li")).to_have_count(len(kims) - 2)
    expect(page.locator("#main")).not_to_contain_text("Ana")
    assert page.locator(f"li[data-id='{adas['id']}']").count() == 0
    take_screenshot(page, "mine", full_page=True)
    page.goto(f"{service.address}/#/overview?dataset=own")
    expect(page.get_by_role("heading", level=1)).to_have_text("My annotations")
    assert not any("/v1/review" in url or "/v1/overview" in url for url in harness.requested_urls)
