"""The page for outgoing webhooks, with a real receiver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for
from tests.browser.test_admin import check_page, open_as_admin
from tests.support.webhook_receiver import WebhookReceiver

if TYPE_CHECKING:
    from tests.browser.harness import BrowserHarness


def list_types(receiver: WebhookReceiver) -> list[str]:
    return [json.loads(body)["type"] for _, body in receiver.requests]


def test_an_endpoint_is_added_tested_paused_retried_and_deleted(harness: BrowserHarness) -> None:
    service = harness.service
    first, second = service.fill_queue("hooks", 2)
    harness.expected_statuses = {422}
    with WebhookReceiver() as receiver:
        page = open_as_admin(harness, "#/webhooks")
        expect(page.get_by_role("heading", name="Webhooks", exact=True)).to_be_visible()
        form = page.get_by_role("region", name="New endpoint")
        form.get_by_label("Address").fill("http://example.com/hook")
        form.get_by_role("button", name="Add").click()
        expect(form.get_by_role("alert")).to_contain_text("use https")

        form.get_by_label("Address").fill(receiver.url)
        for event in ("New items in review", "A model that does not fit", "A model that is replaced", "Verdicts"):
            form.get_by_label(event).uncheck()
        form.get_by_label("Dataset").select_option("hooks")
        form.get_by_role("button", name="Add").click()
        expect(page.get_by_role("region", name="The secret of the new endpoint")).to_contain_text("whsec_")
        check_page(page)
        row = page.get_by_role("row").filter(has_text=receiver.url)
        expect(row).to_contain_text("item.decided")

        row.get_by_role("button", name="Test").click()
        expect(page.get_by_text("The test was delivered: the receiver answered 204.")).to_be_visible()
        assert list_types(receiver) == ["webhook.test"]

        row.get_by_role("button", name="Pause").click()
        expect(row).to_contain_text("paused")
        service.decide("hooks", first, "Marta", "ok")
        wait_for(lambda: service.call("GET", "/v1/webhook-endpoints")["endpoints"][0]["pending"] == 1, "it waits")
        assert list_types(receiver) == ["webhook.test"]
        row.get_by_role("button", name="Resume").click()
        expect(row).not_to_contain_text("paused")
        wait_for(lambda: list_types(receiver) == ["webhook.test", "item.decided"], "the delivery")

        receiver.behaviour = "gone"
        service.decide("hooks", second, "Marta", "error")
        wait_for(lambda: service.call("GET", "/v1/webhook-endpoints")["endpoints"][0]["failed"] == 1, "the failure")
        page.reload()
        expect(row).to_contain_text("disabled")
        expect(row).to_contain_text("answered 410")
        expect(row.get_by_role("time").first).to_be_visible()
        row.get_by_role("link", name="1").click()
        failed = page.get_by_role("region", name="Failed")
        expect(failed).to_contain_text(second)
        check_page(page)
        take_screenshot(page, "webhooks", full_page=True)

        receiver.behaviour = "ok"
        failed.get_by_role("button", name="Send all again").click()
        expect(page.get_by_text("1 notification is sent again.")).to_be_visible()
        wait_for(lambda: len(receiver.requests) == 4, "the second attempt")
        expect(row).to_contain_text("ok")

        row.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_text("Nothing is sent anywhere yet.")).to_be_visible()
        assert service.call("GET", "/v1/webhook-endpoints")["endpoints"] == []


def test_only_admins_have_the_page(harness: BrowserHarness) -> None:
    page = harness.open_page("#/queue", reviewer="Marta")
    expect(page.get_by_role("link", name="Queue")).to_be_visible()
    expect(page.locator("#to-webhooks")).to_be_hidden()
