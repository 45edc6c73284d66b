"""While the service is away: what was decided is kept, told as not saved, and sent in order when it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

    from tests.browser.harness import BrowserHarness

TITLE = ".item-title"
ENTRY = ".entry"


def sent(page: Page) -> list[Any]:
    """What is answered of POST /v1/decisions, in order."""
    found: list[Any] = []

    def heard(request: Request) -> None:
        if request.url.endswith("/v1/decisions"):
            found.append(request.post_data_json)

    page.on("requestfinished", heard)
    return found


def test_decisions_wait_for_the_service(desk: BrowserHarness) -> None:
    order = desk.service.fill_queue("away", 4)
    page = desk.open_page("#/queue?dataset=away")
    title = page.locator(TITLE)
    expect(title).to_have_text(f"away / {order[0]}")
    arrived = sent(page)
    desk.offline = True
    page.context.set_offline(True)
    unsent, marks = page.locator("#unsent"), page.locator(".verdict-tag.waiting")
    for number, (key, name) in enumerate((("e", "Error"), ("o", "OK"), ("u", "Unsure"))):
        expect(title).to_have_text(f"away / {order[number]}")
        page.keyboard.press(key)
        expect(page.locator(".toast")).to_contain_text(f"Not saved yet: {name}")
        expect(marks).to_have_count(number + 1)
    expect(unsent).to_contain_text("3 decisions are not saved yet. They are sent when the service answers")
    # Nothing looks decided before it is.
    expect(page.locator(ENTRY)).to_have_count(4)
    page.locator(ENTRY).first.click()
    expect(page.locator(".notice.unsaved")).to_contain_text("Your decision, Error, is not saved yet")
    expect(page.locator(".facts .state")).to_have_text("open")
    take_screenshot(page, "away")
    # The last one was never sent: taken back, nothing is.
    page.keyboard.press("z")
    expect(page.locator(".toast")).to_contain_text("Undone")
    expect(marks).to_have_count(2)
    assert arrived == []

    page.context.set_offline(False)
    expect(unsent).to_be_hidden()
    expect(page.locator(ENTRY)).to_have_count(2)
    expect(marks).to_have_count(0)
    assert [(one["id"], one["verdict"]) for one in arrived] == [(order[0], "error"), (order[1], "ok")]
    found = wait_for(
        lambda: len(items := desk.service.list_items("away", state="decided")) == 2 and items, "what had waited"
    )
    assert {one["id"]: one["decisions"][0]["verdict"] for one in found} == {order[0]: "error", order[1]: "ok"}
    assert desk.service.get_item("away", order[2])["decisions"] == []
    expect(page.locator("#banner")).to_be_hidden()
    # What had waited is undone as any other.
    page.keyboard.press("z")
    wait_for(lambda: desk.service.get_item("away", order[1])["state"] == "open", "the withdrawal")


def test_what_changed_meanwhile_is_shown_again(desk: BrowserHarness) -> None:
    order = desk.service.fill_queue("changed", 3)
    page = desk.open_page("#/queue?dataset=changed")
    title = page.locator(TITLE)
    expect(title).to_have_text(f"changed / {order[0]}")
    desk.offline = True
    desk.expected_statuses = {400, 409, 422}
    page.context.set_offline(True)
    page.keyboard.press("e")
    expect(title).to_have_text(f"changed / {order[1]}")
    page.keyboard.press("o")
    expect(title).to_have_text(f"changed / {order[2]}")
    again = desk.service.flagged_sentences[7]
    desk.service.send({**again, "dataset": "changed", "id": order[0], "revision": 1})
    wait_for(lambda: desk.service.get_item("changed", order[0])["revision"] == 1, "the new annotation")
    page.context.set_offline(False)
    told = page.locator(".toast.lasting")
    expect(told).to_contain_text("Your decision (Error) was not accepted")
    expect(title).to_have_text(f"changed / {order[0]}")
    expect(page.locator(".words bdi")).to_have_text(again["tokens"])
    expect(page.locator(".facts .state")).to_have_text("open")
    assert desk.service.get_item("changed", order[0])["decisions"] == []
    # The one after it is not held up.
    (made,) = wait_for(lambda: desk.service.get_item("changed", order[1])["decisions"], "the one after")
    assert made["verdict"] == "ok"
    told.get_by_role("button", name="Close").click()
    expect(told).to_have_count(0)


def test_a_reload_forgets_nothing(desk: BrowserHarness) -> None:
    order = desk.service.fill_queue("reloaded", 2)
    page = desk.open_page("#/queue?dataset=reloaded")
    expect(page.locator(TITLE)).to_have_text(f"reloaded / {order[0]}")
    desk.expected_statuses = {503}
    page.route("**/v1/decisions", lambda route: route.fulfill(status=503, json={"detail": "still being built"}))
    page.keyboard.press("u")
    expect(page.locator("#unsent")).to_contain_text("1 decision is not saved yet. It is sent")
    page.on("dialog", lambda dialog: dialog.accept())  # that something would be lost
    page.reload()
    expect(page.locator(".verdict-tag.waiting")).to_have_text("Unsure: not saved yet")
    page.unroute("**/v1/decisions")
    expect(page.locator("#unsent")).to_be_hidden()
    (made,) = wait_for(lambda: desk.service.get_item("reloaded", order[0])["decisions"], "what had waited")
    assert made["verdict"] == "unsure"
