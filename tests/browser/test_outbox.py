"""While the service does not answer, decisions are stored, shown as not saved, and sent in order afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

    from tests.browser.harness import BrowserHarness

TITLE = ".item-title"
ENTRY = ".entry"


def record_decisions(page: Page) -> list[Any]:
    """The bodies of completed POST /v1/decisions requests, in order."""
    bodies: list[Any] = []

    def on_request(request: Request) -> None:
        if request.url.endswith("/v1/decisions"):
            bodies.append(request.post_data_json)

    page.on("requestfinished", on_request)
    return bodies


def test_decisions_are_sent_when_the_service_answers_again(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("away", 4)
    page = harness.open_page("#/queue?dataset=away")
    title = page.locator(TITLE)
    expect(title).to_have_text(f"away / {order[0]}")
    arrived = record_decisions(page)
    harness.offline = True
    page.context.set_offline(True)
    unsent, marks = page.locator("#unsent"), page.locator(".verdict-tag.waiting")
    for number, (key, name) in enumerate((("e", "Error"), ("o", "OK"), ("u", "Unsure"))):
        expect(title).to_have_text(f"away / {order[number]}")
        page.keyboard.press(key)
        expect(page.locator(".toast")).to_contain_text(f"Not saved yet: {name}")
        expect(marks).to_have_count(number + 1)
    expect(unsent).to_contain_text("3 decisions are not saved yet. They are sent when the service answers")
    # An unsent decision does not change the state of the item.
    expect(page.locator(ENTRY)).to_have_count(4)
    page.locator(ENTRY).first.click()
    expect(page.locator(".notice.unsaved")).to_contain_text("Your decision, Error, is not saved yet")
    expect(page.locator(".facts .state")).to_have_text("open")
    take_screenshot(page, "away")
    # The last decision was never sent: after undo, nothing is sent.
    page.keyboard.press("z")
    expect(page.locator(".toast")).to_contain_text("Undone")
    expect(marks).to_have_count(2)
    assert arrived == []

    page.context.set_offline(False)
    expect(unsent).to_be_hidden()
    expect(page.locator(ENTRY)).to_have_count(2)
    expect(marks).to_have_count(0)
    assert [(body["id"], body["verdict"]) for body in arrived] == [(order[0], "error"), (order[1], "ok")]
    items = wait_for(
        lambda: len(decided := harness.service.list_items("away", state="decided")) == 2 and decided,
        "the unsent decisions",
    )
    assert {item["id"]: item["decisions"][0]["verdict"] for item in items} == {order[0]: "error", order[1]: "ok"}
    assert harness.service.get_item("away", order[2])["decisions"] == []
    expect(page.locator("#banner")).to_be_hidden()
    # A decision from the outbox can be undone like any other.
    page.keyboard.press("z")
    wait_for(lambda: harness.service.get_item("away", order[1])["state"] == "open", "the withdrawal")


def test_a_refused_decision_reopens_its_item(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("changed", 3)
    page = harness.open_page("#/queue?dataset=changed")
    title = page.locator(TITLE)
    expect(title).to_have_text(f"changed / {order[0]}")
    harness.offline = True
    harness.expected_statuses = {400, 409, 422}
    page.context.set_offline(True)
    page.keyboard.press("e")
    expect(title).to_have_text(f"changed / {order[1]}")
    page.keyboard.press("o")
    expect(title).to_have_text(f"changed / {order[2]}")
    again = harness.service.flagged_sentences[7]
    harness.service.send({**again, "dataset": "changed", "id": order[0], "revision": 1})
    wait_for(lambda: harness.service.get_item("changed", order[0])["revision"] == 1, "the new annotation")
    page.context.set_offline(False)
    refusal = page.locator(".toast.lasting")
    expect(refusal).to_contain_text("Your decision (Error) was not accepted")
    expect(title).to_have_text(f"changed / {order[0]}")
    expect(page.locator(".words bdi")).to_have_text(again["tokens"])
    expect(page.locator(".facts .state")).to_have_text("open")
    assert harness.service.get_item("changed", order[0])["decisions"] == []
    # The refusal does not block the next decision.
    (decision,) = wait_for(lambda: harness.service.get_item("changed", order[1])["decisions"], "the next decision")
    assert decision["verdict"] == "ok"
    refusal.get_by_role("button", name="Close").click()
    expect(refusal).to_have_count(0)


def test_unsent_decisions_survive_a_reload(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("reloaded", 2)
    page = harness.open_page("#/queue?dataset=reloaded")
    expect(page.locator(TITLE)).to_have_text(f"reloaded / {order[0]}")
    harness.expected_statuses = {503}
    page.route("**/v1/decisions", lambda route: route.fulfill(status=503, json={"detail": "still being built"}))
    page.keyboard.press("u")
    expect(page.locator("#unsent")).to_contain_text("1 decision is not saved yet. It is sent")
    page.on("dialog", lambda dialog: dialog.accept())  # the browser asks whether to leave the page
    page.reload()
    expect(page.locator(".verdict-tag.waiting")).to_have_text("Unsure: not saved yet")
    page.unroute("**/v1/decisions")
    expect(page.locator("#unsent")).to_be_hidden()
    (decision,) = wait_for(lambda: harness.service.get_item("reloaded", order[0])["decisions"], "the unsent decisions")
    assert decision["verdict"] == "unsure"
