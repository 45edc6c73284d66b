"""The day's progress, unsure sentences, the words of the verdict, and a layout that stays in place."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from tests.browser.harness import BrowserHarness

ENTRY = ".entry"
TITLE = ".item-title"
PHONE: dict[str, int] = {"width": 360, "height": 740}
# By line of the sentence: the lowest edge of what is below its words, and the highest edge of what is above them.
LINES = """() => {
  const lines = new Map()
  for (const word of document.querySelectorAll('.words .w')) {
    const box = word.querySelector('bdi').getBoundingClientRect()
    const key = Math.round(box.top)
    const line = lines.get(key) ?? { top: box.top, bottom: box.bottom, names: 0 }
    for (const name of word.querySelectorAll('i.on')) {
      const range = document.createRange()
      range.selectNodeContents(name)
      for (const part of [name.getBoundingClientRect(), ...range.getClientRects()]) {
        line.top = Math.min(line.top, part.top)
        line.bottom = Math.max(line.bottom, part.bottom)
      }
      line.names += 1
    }
    lines.set(key, line)
  }
  return [...lines].sort(([a], [b]) => a - b).map(([, line]) => line)
}"""
BUTTON_BOXES = """() => [...document.querySelectorAll('[data-verdict]')].map((button) => {
  const { x, y, width, height } = button.getBoundingClientRect()
  return [x, y, width, height].map(Math.round)
})"""


def test_the_progress_of_the_day_and_one_click_to_unsure_sentences(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("today", 6)
    harness.service.decide("today", order[5], "Ana", "ok")
    harness.service.decide("today", order[4], "Marta", "error", decided_at="2024-05-31T12:00:00Z")
    wait_for(lambda: len(harness.service.list_items("today")) == 4, "the decisions")
    page = harness.open_page("#/queue?dataset=today")
    progress = page.get_by_role("group", name="Progress of today")
    expect(progress).to_contain_text("0 by you, 1 by all")
    expect(progress).to_contain_text("4 open")
    expect(progress.get_by_role("link")).to_have_count(0)
    expect(page.locator(TITLE)).to_have_text(f"today / {order[0]}")
    page.keyboard.press("u")
    expect(progress).to_contain_text("1 by you, 2 by all")
    expect(progress).to_contain_text("1 decision in the last hour")
    expect(page.locator(TITLE)).to_have_text(f"today / {order[1]}")  # keys do nothing until the next sentence is open
    page.keyboard.press("o")
    expect(progress).to_contain_text("2 by you, 3 by all")
    expect(progress).to_contain_text("2 open")
    take_screenshot(page, "progress")
    progress.get_by_role("link", name="1 unsure").click()
    expect(page.locator(ENTRY)).to_have_count(1)
    expect(page.locator(TITLE)).to_have_text(f"today / {order[0]}")
    page.keyboard.press("o")
    expect(page.locator(TITLE)).to_have_text(f"today / {order[0]}")
    wait_for(lambda: not harness.service.list_items("today", state="decided", verdict="unsure"), "the decision")
    expect(progress.get_by_role("link")).to_have_count(0)


def test_the_day_is_that_of_the_reviewer(harness: BrowserHarness) -> None:
    harness.service.fill_queue("zones", 1)
    requests: list[str] = []
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        page = harness.open_page("#/queue?dataset=zones", timezone_id=zone)
        page.on("request", lambda request: requests.append(request.url))
        page.reload()
        expect(page.get_by_role("group", name="Progress of today")).to_contain_text("1 open")
    hours = {found[1] for url in requests if (found := re.search(r"since=[\d-]+T(\d\d)%3A", url))}
    assert hours == {"10", "11"}  # midnight at UTC+14 and at UTC-11


def test_buttons_stay_in_place(harness: BrowserHarness) -> None:
    sentences = sorted(harness.service.flagged_sentences, key=lambda sentence: len(sentence["tokens"]))
    short, *_, long = sentences
    filler = ["and", "so", "on"] * 12
    harness.service.send(
        {**short, "dataset": "places", "id": "short"},
        {**long, "dataset": "places", "id": "long", "annotator": "kim", "document": "a document with a name"},
        {
            "tokens": [*long["tokens"], *filler],
            "labels": [*long["labels"], *["O"] * len(filler)],
            "dataset": "places",
            "id": "longer",
        },
    )
    wait_for(lambda: len(harness.service.list_items("places")) == 3, "the queue")
    for viewport in ({"width": 1280, "height": 860}, PHONE):
        page = harness.open_page("#/queue?dataset=places", viewport=viewport)
        expect(page.locator(TITLE)).to_be_visible()
        boxes = {}
        for name in ("short", "long", "longer"):
            page.goto(f"{harness.service.address}/#/queue?dataset=places&item=places%2F{name}")
            expect(page.locator(TITLE)).to_have_text(f"places / {name}")
            page.evaluate("scrollTo(0, 0)")
            boxes[name] = page.evaluate(BUTTON_BOXES)
        assert len(boxes["short"]) == 3
        assert boxes["short"] == boxes["long"] == boxes["longer"], viewport


@pytest.mark.parametrize("viewport", [PHONE, {"width": 1280, "height": 860}], ids=["phone", "wide"])
def test_wrapped_lines_do_not_mix(harness: BrowserHarness, viewport: dict[str, int]) -> None:
    """Every word of a long sentence is an entity, and the reviewer gives all of them another type."""
    dataset = f"wrapped-{viewport['width']}"
    bad = harness.service.flagged_sentences[0]
    words = ["Real", "Madrid", "against", "Bayern", "Munich", "in", "Oslo"] * 4
    labels = ["B-LOC", "I-LOC", "O", "B-LOC", "I-LOC", "O", "B-PER"] * 4
    harness.service.send(
        {
            "tokens": [*words, *bad["tokens"]],
            "labels": [*labels, *bad["labels"]],
            "dataset": dataset,
            "id": "one",
        }
    )
    wait_for(lambda: harness.service.list_items(dataset), "the queue")
    page = harness.open_page(f"#/queue?dataset={dataset}", viewport=viewport)
    expect(page.locator(TITLE)).to_have_text(f"{dataset} / one")
    gap = page.get_by_role("option", name="words …")
    if gap.count():
        gap.first.click()
    for index in (0, 3, 6, 7, 10, 13):
        page.locator(f"[data-index='{index}']").click()
        page.keyboard.press("3")
    expect(page.locator(".words i.s.on.first").first).to_be_visible()
    lines: list[dict[str, Any]] = page.evaluate(LINES)
    assert len(lines) > 2
    assert sum(line["names"] for line in lines) > 12
    for line, following in itertools.pairwise(lines):
        assert line["bottom"] <= following["top"], (line, following)
    take_screenshot(page, f"wrapped-{viewport['width']}", full_page=True)


def test_a_type_has_one_colour_everywhere(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("colours", 6)
    page = harness.open_page("#/queue?dataset=colours")
    expect(page.locator(ENTRY)).to_have_count(6)

    def collect(selector: str) -> dict[str, set[str]]:
        found: list[list[str]] = page.locator(selector).evaluate_all(
            "elements => elements.map(element => [element.textContent.trim(), getComputedStyle(element).color])"
        )
        colours: dict[str, set[str]] = {}
        for name, colour in found:
            colours.setdefault(name, set()).add(colour)
        return colours

    types = collect(".type-bar .type span")
    assert len(types) >= 4
    places = {
        "list": collect(".entry .doubt b"),
        "doubts": {},
        "sentence": {},
        "similar": collect(".similar .labels span"),
    }
    for sentence_id in order:
        page.locator(f"[data-key='colours/{sentence_id}']").click()
        expect(page.locator(TITLE)).to_have_text(f"colours / {sentence_id}")
        for place, selector in (("doubts", ".doubt-row b"), ("sentence", ".words i.on.first")):
            for name, colours in collect(selector).items():
                places[place].setdefault(name, set()).update(colours)
    page.keyboard.press("b")
    expect(page.locator(".bulk-count")).to_be_visible()
    places["bulk"] = collect(".bulk-groups b")
    seen = 0
    for place, by_type in places.items():
        for name, colours in by_type.items():
            if name in types:
                assert colours == types[name], (place, name)
                seen += 1
    assert seen > 6


def test_the_verdict_is_that_of_the_service(harness: BrowserHarness) -> None:
    harness.service.fill_queue("verdicts", 5)
    words = {
        "very_likely_wrong": "Very likely wrong",
        "probably_wrong": "Probably wrong",
        "may_be_right": "May be right",
    }
    page = harness.open_page("#/queue?dataset=verdicts")
    for item in harness.service.list_items("verdicts"):
        page.locator(f"[data-key='verdicts/{item['id']}']").click()
        expect(page.locator(TITLE)).to_have_text(f"verdicts / {item['id']}")
        expect(page.locator(".likelihood")).to_have_text(words[item["likelihood"]])
