"""Working through many: doubts in words, the same words elsewhere, a search, filters by decision, and empty queues."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import run_service, take_screenshot, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.browser.harness import BrowserHarness, ServiceProcess

TITLE = ".item-title"
ENTRY = ".entry"
SIMILAR = ".similar"

PLACES = (
    ("o-1", "Anna flew to Oslo", "B-PER O O B-ORG"),
    ("o-2", "They live in Oslo today", "O O O B-ORG O"),
    ("r-1", "They live in Rome today", "O O O B-ORG O"),
)


def send_places(service: ServiceProcess, dataset: str) -> None:
    """Cities that are labelled as organizations, two of them the same."""
    service.call("PATCH", f"/v1/datasets/{dataset}", json={"flag_policy": {"kind": "below", "cut": 0.9}})
    service.send(
        *(
            {"dataset": dataset, "id": name, "tokens": text.split(), "labels": labels.split()}
            for name, text, labels in PLACES
        )
    )
    wait_for(lambda: len(service.list_items(dataset)) == len(PLACES), f"the queue of {dataset}")


def test_the_list_says_in_words_what_is_wrong(harness: BrowserHarness) -> None:
    send_places(harness.service, "worded")
    harness.service.send(
        {"dataset": "worded", "id": "m", "tokens": ["He", "met", "Peter", "Blackburn"], "labels": ["O"] * 4}
    )
    wait_for(lambda: len(harness.service.list_items("worded")) == 4, "the fourth item")
    page = harness.open_page("#/queue?dataset=worded")
    expect(page.locator("[data-key='worded/o-1'] .doubt")).to_have_text("ORG should be LOC: Oslo")
    expect(page.locator("[data-key='worded/m'] .doubt")).to_have_text("Missed PER: Peter Blackburn")
    take_screenshot(page, "list-in-words")


def test_the_same_words_elsewhere_are_links(harness: BrowserHarness) -> None:
    send_places(harness.service, "elsewhere")
    page = harness.open_page("#/queue?dataset=elsewhere&item=elsewhere/o-1")
    expect(page.locator(TITLE)).to_have_text("elsewhere / o-1")
    words, pair = page.locator(f"{SIMILAR} section").first, page.locator(f"{SIMILAR} section").last
    expect(words.get_by_role("heading")).to_have_text("The same words elsewhere")
    expect(words.get_by_role("link")).to_have_text(re.compile(r"They live in Oslo today\s*ORG should be LOC"))
    expect(pair.get_by_role("heading")).to_have_text("Also ORG that should be LOC")
    expect(pair.get_by_role("link")).to_have_text(re.compile(r"They live in Rome today\s*ORG should be LOC"))
    take_screenshot(page, "similar", full_page=True)
    # By keyboard: `s` goes to the first link, Enter opens it. The list keeps its filter.
    page.keyboard.press("s")
    expect(words.get_by_role("link")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(TITLE)).to_have_text("elsewhere / o-2")
    expect(page.locator(ENTRY)).to_have_count(3)
    expect(page.locator(f"{SIMILAR} a").first).to_have_text(re.compile("Anna flew to Oslo"))
    # By pointer.
    page.locator(f"{SIMILAR} a").first.click()
    expect(page.locator(TITLE)).to_have_text("elsewhere / o-1")
    # A decided sentence is not offered any more.
    harness.service.decide("elsewhere", "o-2", "ana", "error")
    expect(page.locator(f"{SIMILAR} section")).to_have_count(1)
    expect(page.locator(f"{SIMILAR} h3")).to_have_text("Also ORG that should be LOC")
    harness.service.decide("elsewhere", "r-1", "ana", "error")
    expect(page.locator(SIMILAR)).to_be_hidden()
    page.keyboard.press("s")
    expect(page.locator(".toast")).to_contain_text("No other open sentence")


def test_a_search_over_words(harness: BrowserHarness) -> None:
    send_places(harness.service, "searched")
    page = harness.open_page("#/queue?dataset=searched")
    expect(page.locator(ENTRY)).to_have_count(3)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Words")).to_be_focused()
    page.keyboard.type("oslo")
    page.keyboard.press("Enter")
    expect(page.locator(ENTRY)).to_have_count(2)
    assert "q=oslo" in page.url
    page.get_by_role("searchbox", name="Words").fill('"live in" rome')
    page.keyboard.press("Enter")
    expect(page.locator(ENTRY)).to_have_count(1)
    page.reload()
    expect(page.get_by_role("searchbox", name="Words")).to_have_value('"live in" rome')
    expect(page.locator(ENTRY)).to_have_count(1)
    page.get_by_role("searchbox", name="Words").fill("bergen")
    page.keyboard.press("Enter")
    expect(page.locator(".empty-stage")).to_contain_text("Nothing matches")
    page.get_by_role("searchbox", name="Words").fill("")
    page.keyboard.press("Enter")
    expect(page.locator(ENTRY)).to_have_count(3)


def test_a_search_applies_while_typing_and_gives_the_focus_back(harness: BrowserHarness) -> None:
    send_places(harness.service, "typed")
    page = harness.open_page("#/queue?dataset=typed")
    expect(page.locator(ENTRY)).to_have_count(3)
    entries_before = page.evaluate("history.length")
    page.keyboard.press("/")
    search = page.get_by_role("searchbox", name="Words")
    page.keyboard.type("oslo")
    expect(page.locator(ENTRY)).to_have_count(2)
    expect(search).to_be_focused()
    assert page.evaluate("history.length") == entries_before
    page.keyboard.press("Enter")
    expect(page.locator(f"{ENTRY}[aria-current]")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(ENTRY).nth(1)).to_have_attribute("aria-current", "true")
    # Escape leaves the search with what was typed.
    page.keyboard.press("/")
    page.keyboard.type("rome")
    page.keyboard.press("Escape")
    expect(page.locator(ENTRY)).to_have_count(1)
    expect(page.locator(ENTRY)).to_be_focused()
    expect(search).to_have_value("rome")
    page.keyboard.press("f")
    expect(page.get_by_label("Dataset")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(ENTRY)).to_be_focused()
    # A search that the service would refuse is not sent while it is typed.
    page.keyboard.press("/")
    page.keyboard.type('"')
    page.keyboard.type("anna flew")
    expect(page.locator(ENTRY)).to_have_count(1)
    expect(page.locator(ENTRY)).to_contain_text("Anna")
    expect(page.locator(".toast.wrong")).to_have_count(0)


def test_a_search_that_is_refused_says_why(harness: BrowserHarness) -> None:
    send_places(harness.service, "refused-search")
    harness.expected_statuses.add(422)
    page = harness.open_page("#/queue?dataset=refused-search")
    page.get_by_role("searchbox", name="Words").fill("?!")
    page.keyboard.press("Enter")
    expect(page.locator(".toast.wrong")).to_contain_text("no letter, digit or symbol")


def test_decided_items_by_verdict_and_reviewer(harness: BrowserHarness) -> None:
    send_places(harness.service, "recalled")
    for name, reviewer, verdict in (("o-1", "ana", "unsure"), ("o-2", "ana", "ok"), ("r-1", "ben", "unsure")):
        harness.service.decide("recalled", name, reviewer, verdict)
    wait_for(lambda: len(harness.service.list_items("recalled", state="decided")) == 3, "the decisions")
    page = harness.open_page("#/queue?dataset=recalled")
    stage = page.locator(".empty-stage")
    expect(stage).to_contain_text("Every doubtful sentence is decided")
    expect(stage).to_contain_text("3 sentences decided: 0 errors, 1 OK, 2 unsure")
    expect(stage).to_contain_text("labelwatch export --decisions --dataset recalled")
    take_screenshot(page, "end-of-queue", full_page=True)
    stage.get_by_role("link", name="Export the dataset with the corrected labels").click()
    expect(page.get_by_label("Dataset")).to_have_value("recalled")
    page.go_back()
    stage.get_by_role("link", name="Look again at the 2 unsure sentences").click()
    expect(page.locator(ENTRY)).to_have_count(2)
    expect(page.get_by_label("Verdict")).to_have_value("unsure")
    page.get_by_label("Decided by").fill("ben")
    page.keyboard.press("Enter")
    expect(page.locator(ENTRY)).to_have_count(1)
    expect(page.locator(TITLE)).to_have_text("recalled / r-1")
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Dataset").select_option("recalled")
    # A verdict implies decided sentences: open ones have none.
    page.get_by_label("Verdict").select_option("ok")
    expect(page.get_by_label("State")).to_have_value("decided")
    expect(page.locator(TITLE)).to_have_text("recalled / o-2")


def test_a_new_service_says_how_to_send_the_first_sentence(browser: Browser, tmp_path: Path) -> None:
    with run_service(tmp_path, sample=False) as service:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        context.add_init_script(f"sessionStorage.setItem('labelwatch.key', {json.dumps(service.write_key)})")
        page = context.new_page()
        page.goto(f"{service.address}/")
        expect(page.locator(".empty-stage h2")).to_have_text("Send the first sentence")
        take_screenshot(page, "first-sentence")
        page.get_by_role("button", name="Copy the command").first.click()
        expect(page.locator(".toast")).to_have_text("Copied.")
        command = page.evaluate("navigator.clipboard.readText()").replace("YOUR_KEY", service.write_key)
        answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert json.loads(answer.stdout)["ids"] == ["1"]
        expect(page.locator(TITLE)).to_have_text("news / 1")
        context.close()
