"""The overview's batches: the verdict follows the limit and the decisions, and leads to the items of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from tests.browser.harness import BrowserHarness


def test_a_delivery_is_judged_by_its_decisions(harness: BrowserHarness) -> None:
    service = harness.service
    ids = service.fill_queue("delivered", 8, batch="vendor 7")
    page = harness.open_page("#/overview?dataset=delivered")
    row = page.locator("#batches tbody tr")
    expect(row).to_have_count(1)
    expect(row.locator("td.num").first).to_have_text("8")
    page.get_by_label("Accept up to this percentage of errors").fill("30")
    page.get_by_label("Accept up to this percentage of errors").press("Enter")
    expect(row).to_contain_text("Review more")
    for name in ids:
        service.decide("delivered", name, "ana", "ok")
    wait_for(lambda: len(service.list_items("delivered", state="decided")) == 8, "the decisions")
    expect(row).to_contain_text("Accept")
    expect(row).to_contain_text("0.00 %")
    take_screenshot(page, "batches", full_page=True)
    row.get_by_role("link").click()
    expect(page.locator(".entry")).to_have_count(8)
    assert page.get_by_label("Batch").input_value() == "vendor 7"
