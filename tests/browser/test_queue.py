"""The queue: order, filters, live updates and claims."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.harness import BrowserHarness

TITLE = ".item-title"
ENTRY = ".entry"


def names(page: Page) -> list[str]:
    keys = page.locator(ENTRY).evaluate_all("entries => entries.map(entry => entry.dataset.key)")
    return [key.partition("/")[2] for key in keys]


def test_worst_first_with_spans_and_numbers(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("shown", 6, source="https://annotate.example/tasks/7", document="report 7")
    page = harness.open_page("#/queue?dataset=shown")
    expect(page.locator(ENTRY)).to_have_count(6)
    assert names(page) == order
    expect(page.locator(TITLE)).to_have_text(f"shown / {order[0]}")
    item = harness.service.get_item("shown", order[0])
    words = page.locator(".words .w")
    expect(words.locator("bdi")).to_have_text(item["tokens"])
    doubtful = sorted(flag["index"] for flag in item["doubtful"])
    marked = page.locator(".words .w.doubtful").evaluate_all("words => words.map(word => Number(word.dataset.index))")
    assert marked == doubtful
    flag = item["doubtful"][0]
    word = words.nth(flag["index"])
    description = f"suggested {flag['suggested']}"
    assert description in (word.get_attribute("title") or "")
    expect(word).to_have_accessible_description(re.compile(re.escape(description)))
    assert f"threshold {flag['threshold']:.3f}" in (word.get_attribute("title") or "")
    # Suggested entities are below their words.
    suspect = next(suspect for suspect in item["suspects"] if suspect["suggested_span"])
    below = words.nth(suspect["suggested_span"]["start"]).locator("i.s")
    expect(below).to_have_text(suspect["suggested_span"]["type"])
    given = [index for index, label in enumerate(item["labels"]) if label.startswith("B-")]
    for index in given:
        expect(words.nth(index).locator("i.g.on")).to_have_text(item["labels"][index][2:])
    expect(page.locator(".numbers dt")).to_have_text(["Rank", "Priority", "Score"])
    expect(page.locator(".numbers dd").first).not_to_have_text("–")
    expect(page.locator(".facts")).to_contain_text(f"by {item['annotator']}")
    expect(page.locator(".facts")).to_contain_text("in report 7")
    link = page.get_by_role("link", name="Open source")
    assert link.get_attribute("href") == "https://annotate.example/tasks/7"
    assert link.get_attribute("rel") == "noopener noreferrer"
    word.hover()
    expect(page.locator(".readout")).to_contain_text(description)


def test_keys_go_through_queue_and_words(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("walked", 4)
    page = harness.open_page("#/queue?dataset=walked")
    title = page.locator(TITLE)
    expect(title).to_have_text(f"walked / {order[0]}")
    for key, index in (("n", 1), ("j", 2), ("p", 1), ("k", 0), ("k", 0)):
        page.keyboard.press(key)
        expect(title).to_have_text(f"walked / {order[index]}")
    expect(page.locator(".toast")).to_have_text("This is the first sentence.")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Undo the last edit, else the last decision")
    page.keyboard.press("n")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(title).to_have_text(f"walked / {order[0]}")
    page.locator(".w[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".w").nth(1)).to_be_focused()
    expect(page.locator(".readout")).to_contain_text("given")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Type of the selected words")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".w").nth(1)).to_be_focused()
    page.keyboard.press("c")
    expect(page.locator("[data-choice='1']")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator(ENTRY).first.focus()
    page.keyboard.press("ArrowDown")
    expect(title).to_have_text(f"walked / {order[1]}")
    expect(page.locator(ENTRY).nth(1)).to_be_focused()


def test_one_item_has_an_address(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("linked", 3)
    harness.service.decide("linked", order[2], "ana", "ok")
    wait_for(lambda: harness.service.get_item("linked", order[2])["state"] == "decided", "the decision")
    page = harness.open_page(f"#/queue?dataset=linked&item=linked/{order[2]}")
    expect(page.locator(TITLE)).to_have_text(f"linked / {order[2]}")
    expect(page.locator(".facts .state")).to_have_text("decided")
    page.keyboard.press("n")
    expect(page.locator(TITLE)).to_have_text(f"linked / {order[0]}")
    # Annotated again while it is open: the new words and a message are shown.
    changed = harness.service.flagged_sentences[7]
    harness.service.send({**changed, "dataset": "linked", "id": order[0], "revision": 1})
    expect(page.locator(".words bdi")).to_have_text(changed["tokens"])
    expect(page.locator(".toast", has_text="annotated again")).to_be_visible()
    page.goto(f"{harness.service.address}/#/overview")
    expect(page.locator("#scores")).to_be_visible()
    page.go_back()
    expect(page.locator(TITLE)).to_have_text(f"linked / {order[0]}")


def test_filters_are_in_the_address(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("sifted", 12)
    items = {name: harness.service.get_item("sifted", name) for name in order}
    harness.service.decide("sifted", order[0], "ana", "ok")
    wait_for(lambda: harness.service.get_item("sifted", order[0])["state"] == "decided", "the decision")
    page = harness.open_page()
    page.get_by_label("Dataset").select_option("sifted")
    expect(page.locator(ENTRY)).to_have_count(11)
    expect(page.locator(".matching")).to_have_text("1 of 11")
    page.get_by_label("State").select_option("all")
    expect(page.locator(ENTRY)).to_have_count(12)

    kind = items[order[0]]["suspects"][0]["kind"]
    page.get_by_label("Kind", exact=True).select_option(kind)
    wanted = [name for name in order if any(suspect["kind"] == kind for suspect in items[name]["suspects"])]
    expect(page.locator(ENTRY)).to_have_count(len(wanted))
    assert names(page) == wanted
    page.get_by_label("Kind", exact=True).select_option("")

    flag = items[order[1]]["doubtful"][0]
    given, suggested = (re.sub("^[BI]-", "", flag[side]) for side in ("given", "suggested"))
    page.get_by_label("Given", exact=True).select_option(given)
    page.get_by_label("Suggested", exact=True).select_option(suggested)
    page.get_by_label("Annotator").fill("ada")
    page.keyboard.press("Tab")

    def fits(name: str) -> bool:
        pairs = {
            tuple(re.sub("^[BI]-", "", flag[side]) for side in ("given", "suggested"))
            for flag in items[name]["doubtful"]
        }
        return (given, suggested) in pairs and items[name]["annotator"] == "ada"

    wanted = [name for name in order if fits(name)]
    expect(page.locator(ENTRY)).to_have_count(len(wanted))
    assert names(page) == wanted
    assert "annotator=ada" in page.url
    page.reload()
    expect(page.get_by_label("Annotator")).to_have_value("ada")
    expect(page.locator(ENTRY)).to_have_count(len(wanted))
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_label("Annotator")).to_have_value("")
    page.get_by_label("Annotator").fill("nobody")
    page.keyboard.press("Tab")
    expect(page.locator(".empty-stage")).to_contain_text("Nothing matches")
    expect(page.locator(".matching")).to_be_empty()
    # The page says that a dataset does not exist and does not offer it.
    page.goto(f"{harness.service.address}/#/queue?dataset=nope")
    expect(page.locator(".empty-stage")).to_contain_text("There is no dataset called nope")
    listed = page.locator("#filter-dataset option").evaluate_all(
        "options => options.filter(option => !option.hidden).map(option => option.value)"
    )
    assert "nope" not in listed
    assert "sifted" in listed
    page.goto(f"{harness.service.address}/#/overview?dataset=nope")
    expect(page.locator(".overview-body")).to_contain_text("There is no dataset called nope")
    page.get_by_role("link", name="Show all datasets").click()
    expect(page.locator("#scores")).to_be_visible()


def test_counts_of_the_filters_are_those_of_the_chosen_state(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("tallied", 6)
    harness.service.decide("tallied", order[0], "ana", "ok")
    wait_for(lambda: harness.service.get_item("tallied", order[0])["state"] == "decided", "the decision")
    page = harness.open_page("#/queue?dataset=tallied")
    for state in ("open", "decided", "all"):
        page.get_by_label("State").select_option(state)
        items = harness.service.list_items("tallied", state=state)
        for side in ("given", "suggested"):
            by_type = Counter(
                name for item in items for name in {re.sub("^[BI]-", "", flag[side]) for flag in item["doubtful"]}
            )
            expected = ["Any", *(f"{name} ({count})" for name, count in sorted(by_type.items()))]
            expect(page.locator(f"#filter-{side} option")).to_have_text(expected)
        missed = sum(any(suspect["kind"] == "missed" for suspect in item["suspects"]) for item in items)
        expect(page.locator("#filter-kind option[value=missed]")).to_have_text(f"Missed ({missed})")


def test_new_sentences_appear_by_themselves(harness: BrowserHarness) -> None:
    harness.service.fill_queue("live", 2)
    page = harness.open_page("#/queue?dataset=live")
    expect(page.locator(ENTRY)).to_have_count(2)
    expect(page.locator("#live")).to_have_text("Live")
    open_now = page.locator(TITLE).inner_text()
    harness.service.send({**harness.service.flagged_sentences[5], "dataset": "live", "id": "new"})
    expect(page.locator(ENTRY)).to_have_count(3)
    assert "new" in names(page)
    assert page.locator(TITLE).inner_text() == open_now
    # A deleted sentence is closed while the reviewer has it open.
    harness.service.send({"dataset": "live", "id": open_now.partition(" / ")[2], "revision": 1, "deleted": True})
    expect(page.locator(".notice", has_text="The annotation was deleted")).to_be_visible()
    expect(page.get_by_role("button", name="Error")).to_be_disabled()
    expect(page.locator(ENTRY)).to_have_count(2)
    page.get_by_label("State").select_option("closed")
    gone = open_now.partition(" / ")[2]
    expect(page.locator(".entry .excerpt")).to_have_text([f"{gone}, deleted"])
    expect(page.locator(".numbers, .entry-rank")).to_have_count(0)
    expect(page.locator(".correction")).to_be_hidden()
    expect(page.get_by_label("Note", exact=True)).to_be_hidden()
    take_screenshot(page, "closed")


def test_others_see_what_is_open(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("claimed", 3)
    first = harness.open_page("#/queue?dataset=claimed", reviewer="Ana")
    expect(first.locator(TITLE)).to_have_text(f"claimed / {order[0]}")
    wait_for(lambda: harness.service.get_item("claimed", order[0])["claimed_by"] == "Ana", "the claim")
    second = harness.open_page("#/queue?dataset=claimed", reviewer="Ben")
    expect(second.locator(TITLE)).to_have_text(f"claimed / {order[1]}")  # the first is skipped
    expect(second.locator(ENTRY).first).to_contain_text("Ana")
    second.locator(ENTRY).first.click()
    expect(second.locator(".notice", has_text="Ana has it open")).to_be_visible()
    second.get_by_label("Hide sentences that others have open").check()
    expect(second.locator(ENTRY)).to_have_count(2)
    second.close()
    wait_for(lambda: harness.service.get_item("claimed", order[1])["claimed_by"] is None, "letting go on leaving")
    first.keyboard.press("n")
    expect(first.locator(TITLE)).to_have_text(f"claimed / {order[1]}")
    wait_for(lambda: harness.service.get_item("claimed", order[0])["claimed_by"] is None, "letting go")
    wait_for(lambda: harness.service.get_item("claimed", order[1])["claimed_by"] == "Ana", "the next claim")


def test_control_sentences_look_like_the_others(harness: BrowserHarness) -> None:
    harness.service.call("PUT", "/v1/datasets/controls", json={"control_share": 1.0})
    clean = {"tokens": ["Jane", "Smith", "visited", "Oslo", "."], "labels": ["B-PER", "I-PER", "O", "B-LOC", "O"]}
    sent = count()

    def drawn() -> bool:
        # The first sentences may arrive before the worker has read the settings.
        harness.service.send({**clean, "dataset": "controls", "id": f"plain-{next(sent)}"})
        return bool(harness.service.list_items("controls"))

    wait_for(drawn, "a control sentence")
    bad = [
        {**sentence, "dataset": "controls", "id": f"s-{number}"}
        for number, sentence in enumerate(harness.service.flagged_sentences[:3])
    ]
    harness.service.send(*bad)
    wait_for(
        lambda: any(item["id"] == "s-2" for item in harness.service.list_items("controls")), "the flagged sentences"
    )
    page = harness.open_page("#/queue?dataset=controls&state=all")
    expect(page.locator("[data-key='controls/s-2']")).to_be_visible()
    controls = 0
    for key in page.locator(ENTRY).evaluate_all("entries => entries.map(entry => entry.dataset.key)"):
        page.locator(f"[data-key='{key}']").click()
        expect(page.locator(TITLE)).to_have_text(key.replace("/", " / ", 1))
        controls += "/plain-" in key
        page.locator(".word-table summary").click()
        page.locator(".details summary").click()
        expect(page.locator("[data-choice]").first).to_be_visible()
        page.locator(".w.doubtful").first.hover()
        expect(page.locator(".readout")).to_contain_text("suggested")
        assert "%" not in page.locator(".item").inner_text()
        assert "%" not in (page.locator(".w.doubtful").first.get_attribute("title") or "")
        rank, priority, _ = page.locator(".numbers dd").all_inner_texts()
        assert rank == priority
        expect(page.locator(".notice", has_text="Probabilities are shown after the decision")).to_be_visible()
    assert controls
    take_screenshot(page, "blind")
    page.locator("[data-key*='/plain-']").first.click()
    key = page.locator(".entry[aria-current]").get_attribute("data-key")
    page.keyboard.press("o")
    page.locator(f"[data-key='{key}']").click()
    expect(page.locator(".notice", has_text="A control sentence")).to_be_visible()
    page.locator(".w.doubtful").hover()
    expect(page.locator(".readout")).to_contain_text("%")
