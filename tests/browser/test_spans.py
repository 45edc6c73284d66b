"""Entities by pointer, touch and keyboard: select, mark, retype, resize, split, remove, undo; keys are counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from service.labels import Scheme, Span, is_valid_sequence, parse_spans
from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.harness import BrowserHarness

TITLE = ".item-title"
NARROW: dict[str, int] = {"width": 360, "height": 740}
MANY_TYPES = [
    "PER",
    "LOC",
    "ORG",
    "MISC",
    "DATE",
    "TIME",
    "MONEY",
    "LAW",
    "EVENT",
    "PRODUCT",
    "WORK_OF_ART",
    "LANGUAGE",
]
# Two suspects: a person without a label, and a place that is labelled as a person.
TWO_SUSPECTS = {
    "tokens": ["Maria", "Schmidt", "moved", "from", "Berlin", "to", "London", "last", "year", "."],
    "labels": ["O", "O", "O", "O", "B-PER", "O", "B-LOC", "O", "O", "O"],
}


@dataclass
class KeyCounter:
    """A keyboard that counts."""

    page: Page
    pressed: int = 0

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.pressed += 1


def open_item(harness: BrowserHarness, dataset: str, name: str, **options: Any) -> Page:
    page = harness.open_page(f"#/queue?dataset={dataset}&item={dataset}/{name}", **options)
    expect(page.locator(TITLE)).to_have_text(f"{dataset} / {name}")
    return page


def send_sentence(harness: BrowserHarness, dataset: str, sentence: dict[str, Any], name: str = "one") -> dict[str, Any]:
    harness.service.send({**sentence, "dataset": dataset, "id": name})
    wait_for(lambda: any(item["id"] == name for item in harness.service.list_items(dataset)), f"{dataset}/{name}")
    return harness.service.get_item(dataset, name)


def wait_for_labels(harness: BrowserHarness, dataset: str, name: str) -> list[str]:
    item = wait_for(
        lambda: (item := harness.service.get_item(dataset, name))["state"] == "decided" and item,
        f"a decision about {name}",
    )
    (decision,) = item["decisions"]
    assert decision["verdict"] == "error"
    return list(decision["labels"])


def drag(page: Page, first: int, last: int) -> None:
    boxes = [page.locator(f".w[data-index='{index}'] bdi").bounding_box() for index in (first, last)]
    (start, end) = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes if box is not None]
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=5)
    page.mouse.up()


def expect_selected(page: Page, *indices: int) -> None:
    expect(page.locator(".w[aria-selected='true']")).to_have_count(len(indices))
    for index in indices:
        expect(page.locator(f".w[data-index='{index}']")).to_have_attribute("aria-selected", "true")


def test_keys_counted(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("pressed", 8)
    items = {name: harness.service.get_item("pressed", name) for name in order}
    single = next(name for name in order if len(items[name]["suspects"]) == 1)
    page = open_item(harness, "pressed", single)
    keys = KeyCounter(page)
    keys.press("a")
    labels = wait_for_labels(harness, "pressed", single)
    suspect = items[single]["suspects"][0]
    assert Span(**suspect["suggested_span"]) in parse_spans(labels, Scheme.IOB2)
    assert keys.pressed == 1, "accept a suspect"

    sentence = {
        "tokens": ["Talks", "in", "New", "York", "City", "of", "the", "Lakeside", "Bus", "Drivers'", "Union", "failed"],
        "labels": ["O", "O", "B-PER", "I-PER", "I-PER", "O", "O", "O", "O", "O", "O", "O"],
    }
    send_sentence(harness, "pressed", sentence, "long")
    page = open_item(harness, "pressed", "long")
    page.locator(".w[data-index='3']").click()
    expect_selected(page, 2, 3, 4)
    types = page.locator(".type").evaluate_all("all => all.map(one => one.dataset.type)")
    keys = KeyCounter(page)
    keys.press(str(types.index("LOC") + 1))
    expect(page.locator(".w[data-index='2'] .s")).to_have_text("LOC")
    assert keys.pressed == 1, "retype an entity of three words"
    page.locator(".w[data-index='0']").click()
    drag(page, 10, 7)
    expect_selected(page, 7, 8, 9, 10)
    keys = KeyCounter(page)
    keys.press(str(types.index("ORG") + 1), "e")
    labels = wait_for_labels(harness, "pressed", "long")
    assert keys.pressed == 2, "mark a missed entity and save it"
    assert {Span(2, 5, "LOC"), Span(7, 11, "ORG")} <= set(parse_spans(labels, Scheme.IOB2))
    assert is_valid_sequence(labels, Scheme.IOB2)


def test_everything_by_keyboard(harness: BrowserHarness) -> None:
    harness.service.call("PUT", "/v1/datasets/keyboard", json={"scheme": "biluo"})
    sentence = {
        "tokens": ["Real", "Madrid", "beat", "FC", "Porto", "in", "Lisbon"],
        "labels": ["B-PER", "L-PER", "O", "B-ORG", "L-ORG", "O", "U-LOC"],
    }

    numbers = count()

    def send_until_flagged() -> bool:
        """Sends repeatedly: the worker may read the settings a little later."""
        harness.service.send({**sentence, "dataset": "keyboard", "id": f"s-{next(numbers)}"})
        return bool(harness.service.list_items("keyboard"))

    wait_for(send_until_flagged, "the queue of keyboard")
    name = harness.service.list_items("keyboard")[0]["id"]
    page = open_item(harness, "keyboard", name)
    page.keyboard.press("Shift+R")
    expect(page.locator(".toast")).to_contain_text("OK: ")
    page.keyboard.press("z")
    wait_for(lambda: harness.service.get_item("keyboard", name)["state"] == "open", "the withdrawal")
    expect(page.locator(TITLE)).to_have_text(f"keyboard / {name}")
    page.keyboard.press("ArrowRight")  # from anywhere into the sentence
    page.keyboard.press("Home")
    expect(page.locator(".w").first).to_be_focused()
    expect_selected(page, 0, 1)
    page.keyboard.press("t")
    page.keyboard.type("or")
    page.keyboard.press("Enter")
    expect(page.locator(".w").first).to_be_focused()
    expect(page.get_by_role("option", name="Real ORG, Real Madrid, word 1 of 2")).to_be_visible()
    page.keyboard.press("End")
    expect_selected(page, 6)
    page.keyboard.press("<")
    expect_selected(page, 5, 6)
    expect(page.get_by_role("option", name="in LOC, in Lisbon, word 1 of 2")).to_be_visible()
    page.keyboard.press(">")
    expect(page.get_by_role("option", name="in no entity")).to_be_visible()
    page.keyboard.press("z")
    expect(page.get_by_role("option", name="in LOC, in Lisbon, word 1 of 2")).to_be_visible()
    page.keyboard.press("z")
    expect(page.get_by_role("option", name="in no entity")).to_be_visible()
    for key in ("Home", "ArrowRight", "ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    expect_selected(page, 2, 3)
    page.keyboard.press("Escape")
    expect_selected(page, 3, 4)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("x")
    expect(page.get_by_role("option", name="FC ORG", exact=False)).not_to_have_accessible_name(re.compile("word 1"))
    expect_selected(page, 4)
    page.keyboard.press("Backspace")
    expect(page.get_by_role("option", name="Porto no entity")).to_be_visible()
    page.keyboard.press("e")
    labels = wait_for_labels(harness, "keyboard", name)
    assert labels == ["B-ORG", "L-ORG", "O", "U-ORG", "O", "O", "U-LOC"]


def test_suspects_are_answered_one_by_one_or_all_at_once(harness: BrowserHarness) -> None:
    for name in ("singly", "together", "refused"):
        send_sentence(harness, "answered", TWO_SUSPECTS, name)
    item = harness.service.get_item("answered", "singly")
    assert len(item["suspects"]) == 2
    page = open_item(harness, "answered", "singly")
    rows = page.locator(".doubt-row")
    expect(rows).to_have_count(2)
    expect(rows.first).to_have_attribute("aria-current", "true")
    first = rows.first.inner_text()
    page.keyboard.press("a")
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    expect(rows.first.get_by_role("button", name="Accept")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("r")
    labels = wait_for_labels(harness, "answered", "singly")
    is_person_first = "Missed" in first
    assert (labels[:2] == ["B-PER", "I-PER"]) is is_person_first
    assert (labels[4] == "B-LOC") is not is_person_first
    page = open_item(harness, "answered", "together")
    page.keyboard.press("Shift+A")
    labels = wait_for_labels(harness, "answered", "together")
    assert labels == ["B-PER", "I-PER", "O", "O", "B-LOC", "O", "B-LOC", "O", "O", "O"]
    page = open_item(harness, "answered", "refused")
    page.get_by_role("button", name="Reject all").click()
    wait_for(lambda: harness.service.get_item("answered", "refused")["state"] == "decided", "the decision")
    (decision,) = harness.service.get_item("answered", "refused")["decisions"]
    assert (decision["verdict"], decision["labels"]) == ("ok", None)


def test_doubts_that_share_words_keep_what_was_accepted(harness: BrowserHarness) -> None:
    # The model finds one person where two are labelled: each of the two is a doubt about the same suggested entity.
    halves = {
        "tokens": ["Maria", "Schmidt", "moved", "from", "Berlin", "to", "London", "last", "year", "."],
        "labels": ["B-PER", "B-PER", "O", "O", "B-LOC", "O", "B-LOC", "O", "O", "O"],
    }
    harness.service.call("PATCH", "/v1/datasets/shared", json={"flag_policy": {"kind": "below", "cut": 0.9}})
    for name, keys in (("accepted-first", "ar"), ("rejected-first", "ra"), ("both", "aa")):
        item = send_sentence(harness, "shared", halves, name)
        assert [suspect["suggested_span"] for suspect in item["suspects"]] == [
            {"start": 0, "end": 2, "type": "PER"}
        ] * 2
        page = open_item(harness, "shared", name)
        rows = page.locator(".doubt-row")
        page.keyboard.press(keys[0])
        expect(rows.nth(1)).to_have_attribute("aria-current", "true")
        if keys[0] == "a":
            expect(rows.nth(1)).to_contain_text("shares words with an accepted one")
        page.keyboard.press(keys[1])
        assert wait_for_labels(harness, "shared", name)[:2] == ["B-PER", "I-PER"], keys


def test_the_menu_holds_the_label_set_and_nothing_else(harness: BrowserHarness) -> None:
    harness.service.call("PUT", "/v1/datasets/many", json={"label_set": MANY_TYPES})
    send_sentence(harness, "many", TWO_SUSPECTS)
    page = open_item(harness, "many", "one")
    assert harness.service.call("GET", "/v1/datasets/many/label-set")["types"] == MANY_TYPES
    expect(page.locator(".type")).to_have_count(9)
    page.locator(".w[data-index='8']").click()
    page.get_by_role("button", name="All 12 types").click()
    options = page.locator("#type-options [role=option]")
    expect(options).to_have_text(MANY_TYPES)
    looks = options.locator("span").evaluate_all(
        "all => all.map(one => getComputedStyle(one).color + getComputedStyle(one).textDecorationStyle"
        " + getComputedStyle(one).textDecorationLine)"
    )
    assert len(set(looks)) == len(MANY_TYPES), "types of one label set have different looks"
    take_screenshot(page, "types")
    page.keyboard.type("art")
    expect(options).to_have_text(["WORK_OF_ART"])
    page.keyboard.type("x")
    expect(page.locator(".type-menu")).to_contain_text("The label set has no such type")
    page.keyboard.press("Backspace")
    options.first.click()
    expect(page.get_by_role("option", name="year WORK_OF_ART")).to_be_visible()
    page.keyboard.press("e")
    assert wait_for_labels(harness, "many", "one")[8] == "B-WORK_OF_ART"


def test_touch(harness: BrowserHarness) -> None:
    send_sentence(harness, "touched", TWO_SUSPECTS)
    page = open_item(harness, "touched", "one", viewport=NARROW, has_touch=True, is_mobile=True)
    page.locator(".w[data-index='7']").tap()
    expect_selected(page, 7)
    page.get_by_role("button", name="End one word later").tap()
    expect_selected(page, 7, 8)
    page.locator(".type[data-type='MISC']").tap()
    expect(page.get_by_role("option", name="last MISC, last year, word 1 of 2")).to_be_visible()
    page.locator(".w[data-index='8']").tap()
    expect_selected(page, 7, 8)
    take_screenshot(page, "touch")
    page.get_by_role("button", name="No entity").tap()
    expect(page.get_by_role("option", name="last no entity")).to_be_visible()


def test_a_phone_shows_the_answers_without_scrolling(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("fold", 4)
    send_sentence(harness, "fold", TWO_SUSPECTS)
    size = {"width": 390, "height": 844}
    page = open_item(harness, "fold", "one", viewport=size, has_touch=True, is_mobile=True)
    accept, reject = (page.get_by_role("button", name=re.compile(f"^{name} ?:")) for name in ("Accept", "Reject"))
    for name in ("one", *order):
        page.goto(f"{harness.service.address}/#/queue?dataset=fold&item=fold%2F{name}")
        expect(page.locator(TITLE)).to_have_text(f"fold / {name}")
        page.evaluate("scrollTo(0, 0)")
        for button in (accept.last, reject.last, page.locator(".verdict.error")):
            expect(button).to_be_in_viewport(ratio=1)
    take_screenshot(page, "phone-answers")
    # The bar has the current doubt only; the last answer saves the sentence.
    page = open_item(harness, "fold", "one", viewport=size, has_touch=True, is_mobile=True)
    bar = page.get_by_role("group", name="Current doubt")
    first = bar.locator(".say").inner_text()
    expect(page.get_by_role("button", name=f"Accept : {first}")).to_have_count(1)
    bar.locator(".accepted").tap()
    expect(bar.locator(".say")).not_to_have_text(first)
    bar.locator(".rejected").tap()
    labels = wait_for_labels(harness, "fold", "one")
    assert labels != TWO_SUSPECTS["labels"]


def test_a_boundary_doubt_is_read_out_as_a_whole(harness: BrowserHarness) -> None:
    suspect, item = next(
        (suspect, item)
        for item in harness.service.list_items("sample")
        for suspect in item["suspects"]
        if suspect["kind"] == "boundary" and len(item["suspects"]) == 1
    )
    page = open_item(harness, "sample", item["id"])
    given, suggested = (
        " ".join(item["tokens"][suspect[side]["start"] : suspect[side]["end"]])
        for side in ("given_span", "suggested_span")
    )
    text = f"{suspect['suggested_span']['type']} has the wrong boundary: {suggested}, not {given}"
    readout, status = page.locator(".readout"), page.locator(".item > [role=status]")
    expect(status).to_have_text(text)
    expect(readout).to_contain_text(text)
    assert item["doubtful"]
    for flag in item["doubtful"]:
        expect(readout).to_contain_text(f"{flag['token']}: given {flag['given']}, suggested {flag['suggested']}")
    # The doubt stays while its words have the focus; another word has its own read-out.
    page.locator(".doubt-row .say").click()
    expect(page.locator(".w:focus")).to_have_count(1)
    expect(readout).to_contain_text(text)
    page.keyboard.press("Home")
    expect(readout).not_to_contain_text(text)


def test_a_suggestion_stands_nearer_to_its_words_than_to_the_next_line(harness: BrowserHarness) -> None:
    sentence = {
        "tokens": TWO_SUSPECTS["tokens"] * 4,
        "labels": TWO_SUSPECTS["labels"] * 4,
    }
    send_sentence(harness, "wrapped", sentence)
    page = open_item(harness, "wrapped", "one", viewport=NARROW)
    lines = page.evaluate(
        """() => {
          const rows = new Map()
          for (const word of document.querySelectorAll('.words .w')) {
            const [above, text, below] = ['.g', 'bdi', '.s'].map((part) => word.querySelector(part).getBoundingClientRect())
            const row = rows.get(word.offsetTop) ?? { top: above.top, text: text.bottom, below: below.top, bottom: below.bottom }
            rows.set(word.offsetTop, row)
          }
          return [...rows.values()]
        }"""
    )
    assert len(lines) > 3
    for line, following in pairwise(lines):
        own, other = line["below"] - line["text"], following["top"] - line["bottom"]
        assert other > own + 8, f"{other:.0f} px to the next line, {own:.0f} px to the own words"
    take_screenshot(page, "wrapped")


def test_decision_buttons_do_not_move(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("steady", 5)
    for viewport in ({"width": 1280, "height": 860}, {"width": 1500, "height": 900}, NARROW):
        page = open_item(harness, "steady", order[0], viewport=viewport)
        places = []
        for name in order:
            expect(page.locator(TITLE)).to_have_text(f"steady / {name}")
            places.append([page.locator(f".verdict.{verdict}").bounding_box() for verdict in ("error", "ok", "unsure")])
            page.keyboard.press("n")
        assert all(place == places[0] for place in places), places
