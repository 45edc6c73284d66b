"""Decisions about many sentences: by selection, by filter and from a cell of the overview, with preview and undo."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

    from tests.browser.harness import BrowserHarness

ENTRY = ".entry"


def get_dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Decide about many sentences")


def get_count(page: Page) -> Locator:
    return get_dialog(page).locator(".bulk-count")


def test_a_selection_is_decided_and_undone_with_the_pointer(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("bulk-pointer", 6)
    page = harness.open_page("#/queue?dataset=bulk-pointer")
    expect(page.locator(ENTRY)).to_have_count(6)
    for number in (2, 4):
        page.get_by_role("checkbox", name=f"Select sentence {number}").click()
    expect(page.locator(".selected-count")).to_have_text("2 selected")
    page.get_by_role("button", name="Decide about many").click()
    expect(get_count(page)).to_have_text("2 sentences get a decision.")
    page.get_by_role("radio", name=re.compile("^OK")).click()
    expect(get_count(page)).to_have_text("2 sentences get a decision.")
    take_screenshot(page, "bulk-selection")
    page.get_by_role("button", name="Apply to 2 sentences").click()
    expect(get_dialog(page)).to_have_count(0)
    expect(page.locator(ENTRY)).to_have_count(4)
    selected = {order[1], order[3]}
    decided = wait_for(lambda: harness.service.list_items("bulk-pointer", state="decided"), "the decisions")
    assert {item["id"] for item in decided} == selected
    for item in decided:
        assert [(each["reviewer"], each["verdict"]) for each in item["decisions"]] == [("Marta", "ok")]
    page.keyboard.press("z")
    expect(page.locator(ENTRY)).to_have_count(6)
    wait_for(lambda: len(harness.service.list_items("bulk-pointer")) == 6, "the undo")
    assert harness.service.list_items("bulk-pointer", state="decided") == []


def test_everything_with_the_keyboard(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("bulk-keys", 5)
    page = harness.open_page("#/queue?dataset=bulk-keys")
    expect(page.locator(ENTRY)).to_have_count(5)
    page.locator(ENTRY).first.focus()
    page.keyboard.press("x")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("x")
    expect(page.locator(".selected-count")).to_have_text("2 selected")
    expect(page.get_by_role("checkbox", name="Select sentence 3")).to_be_checked()
    page.keyboard.press("x")
    expect(page.locator(".selected-count")).to_have_text("1 selected")
    page.keyboard.press("x")
    page.keyboard.press("b")
    expect(get_count(page)).to_have_text("2 sentences get a decision.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name=re.compile("^Accept"))).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio", name=re.compile("^Unsure"))).to_be_checked()
    expect(page.get_by_role("button", name="Apply to 2 sentences")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(page.locator(ENTRY)).to_have_count(3)
    expect(page.locator(".toast")).to_have_count(0)  # the message goes away, and undo stays
    wait_for(lambda: len(harness.service.list_items("bulk-keys", verdict="unsure", state="all")) == 2, "the decisions")
    page.keyboard.press("z")
    expect(page.locator(ENTRY)).to_have_count(5)
    wait_for(lambda: [item["id"] for item in harness.service.list_items("bulk-keys")] == order, "the undo")


def test_without_a_selection_the_dialog_is_about_all_with_and_without_filters(harness: BrowserHarness) -> None:
    harness.service.fill_queue("bulk-all", 3)
    addresses = ("#/queue", "#/queue?dataset=bulk-all", "#/queue?dataset=bulk-all&annotator=kim&free=yes")
    for address, count in zip(addresses, (r"\d+", "3", "2"), strict=True):
        page = harness.open_page(address)
        expect(page.locator(".item-title")).to_be_visible()
        page.get_by_role("button", name="Decide about many").click()
        expect(get_count(page)).to_have_text(re.compile(f"^{count} sentences get a decision"))
        expect(page.get_by_role("button", name=re.compile("^Apply to"))).to_be_enabled()
        page.close()


def test_a_cell_of_the_overview_leaves_out_what_is_not_meant(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("bulk-cell", 12)
    harness.service.decide("bulk-cell", order[0], "Ana", "ok")
    wait_for(lambda: harness.service.list_items("bulk-cell", state="decided"), "the decision")
    page = harness.open_page("#/overview?dataset=bulk-cell")
    overview = harness.service.call("GET", "/v1/overview", params={"dataset": "bulk-cell"})
    cell = overview["confusions"][0]
    page.get_by_role("link", name=f"given {cell['given']}, suggested {cell['suggested']}").click()
    expect(page.locator(ENTRY)).to_have_count(cell["items"])
    body = {
        "reviewer": "Marta",
        "action": "accept",
        "filter": {
            "dataset": "bulk-cell",
            "given": cell["given"],
            "suggested": cell["suggested"],
            "state": "all",
        },
    }
    preview = harness.service.call("POST", "/v1/decisions/preview", json=body)
    planned = len(preview["planned"])
    assert planned
    page.keyboard.press("b")
    word = "sentence gets" if planned == 1 else "sentences get"
    expect(get_count(page)).to_contain_text(f"{planned} {word} a decision")
    for reason in {entry["reason"] for entry in preview["left_out"]}:
        expect(get_dialog(page).locator(f"[data-reason={reason}]")).to_be_visible()
    get_dialog(page).get_by_text("Show the sentences").click()
    expect(get_dialog(page).locator(".bulk-sentences li")).to_have_count(planned)
    take_screenshot(page, "bulk-cell")
    page.get_by_role("button", name=re.compile("^Apply to")).click()
    expect(get_dialog(page)).to_have_count(0)
    wait_for(lambda: len(harness.service.list_items("bulk-cell", state="decided")) == planned + 1, "the decisions")
    for entry in preview["planned"]:
        (decision,) = harness.service.get_item("bulk-cell", entry["decision"]["id"])["decisions"]
        assert (decision["verdict"], decision["labels"]) == ("error", entry["decision"]["labels"])


def test_many_are_sent_in_chunks_and_a_lost_chunk_is_sent_again(harness: BrowserHarness) -> None:
    bad = harness.service.flagged_sentences[0]
    harness.service.send(*({**bad, "dataset": "bulk-chunks", "id": f"c-{number}"} for number in range(230)))
    wait_for(
        lambda: harness.service.call("GET", "/v1/overview", params={"dataset": "bulk-chunks"})["counts"]["open"] == 230,
        "the queue",
    )
    page = harness.open_page("#/queue?dataset=bulk-chunks")
    expect(page.locator(ENTRY)).to_have_count(50)
    harness.expected_statuses.add(503)
    chunks: list[int] = []

    def lose_second_chunk(route: Route) -> None:
        chunks.append(len((route.request.post_data_json or {})["decisions"]))
        if len(chunks) == 2:
            route.fetch()  # the service writes it, but the answer is lost
            route.fulfill(status=503, json={"detail": "try again"})
        else:
            route.continue_()

    page.route("**/v1/decisions", lose_second_chunk)
    page.keyboard.press("b")
    expect(get_count(page)).to_have_text("230 sentences get a decision.")
    page.get_by_role("radio", name=re.compile("^OK")).click()
    page.get_by_role("button", name="Apply to 230 sentences").click()
    expect(get_dialog(page)).to_have_count(0)
    assert chunks == [200, 30, 30]
    page.unroute("**/v1/decisions")

    def count(state: str) -> int:
        overview = harness.service.call("GET", "/v1/overview", params={"dataset": "bulk-chunks"})
        counts: dict[str, int] = overview["counts"]
        return counts[state]

    wait_for(lambda: count("decided") == 230, "the decisions")
    overview = harness.service.call("GET", "/v1/overview", params={"dataset": "bulk-chunks"})
    assert overview["verdicts"] == {"error": 0, "ok": 230, "unsure": 0}
    page.keyboard.press("z")
    wait_for(lambda: count("open") == 230, "the undo")


def test_a_key_that_may_only_read_selects_nothing(harness: BrowserHarness) -> None:
    harness.service.fill_queue("bulk-guest", 2)
    page = harness.open_page("#/queue?dataset=bulk-guest", key=harness.service.read_key)
    expect(page.locator(ENTRY)).to_have_count(2)
    expect(page.get_by_role("checkbox", name="Select sentence 1")).to_have_count(0)
    expect(page.get_by_role("button", name="Decide about many")).to_be_hidden()
