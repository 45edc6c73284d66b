"""Light, dark and narrow: no horizontal overflow, enough contrast, a name for every control, no violation for axe-core."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.harness import take_screenshot
from tests.support.node_packages import install_packages

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.harness import BrowserHarness

WIDE: dict[str, int] = {"width": 1280, "height": 860}
NARROW: dict[str, int] = {"width": 360, "height": 740}
LOOKS = {"light": ("light", WIDE), "dark": ("dark", WIDE), "narrow": ("light", NARROW), "narrow-dark": ("dark", NARROW)}

# The WCAG contrast of each text with its background; large text needs less.
LOW_CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data
    return [r, g, b, a / 255]
  }
  const over = (top, under) => [0, 1, 2].map((k) => top[k] * top[3] + under[k] * (1 - top[3])).concat(1)
  const behind = (element) => {
    const layers = []
    for (let ancestor = element; ancestor; ancestor = ancestor.parentElement) layers.push(rgb(getComputedStyle(ancestor).backgroundColor))
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1])
  }
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => { const c = part / 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4 })
    return .2126 * r + .7152 * g + .0722 * b
  }
  const problems = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement
    if (!node.textContent.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest('.sr, title')) continue
    const style = getComputedStyle(element)
    const under = behind(element)
    const text = over(rgb(element.namespaceURI.endsWith('svg') ? style.fill : style.color), under)
    const [a, b] = [light(text), light(under)].sort((x, y) => y - x)
    const ratio = (a + .05) / (b + .05)
    const large = parseFloat(style.fontSize) >= 24
    if (ratio < (large ? 3 : 4.5)) problems.push(`${ratio.toFixed(2)} ${element.className} ${node.textContent.trim().slice(0, 30)}`)
  }
  return problems
}"""
CONTROLS_WITHOUT_NAME = """() => [...document.querySelectorAll('button, select, input, a[href], [role=button], svg[role=img], dialog')]
  .filter((control) => control.checkVisibility())
  .filter((control) => !(control.getAttribute('aria-label') || control.textContent.trim() || control.getAttribute('aria-labelledby') || control.labels?.length))
  .map((control) => control.outerHTML.slice(0, 80))"""
# Rules of WCAG 2.2 A and AA, and best practices. Tests show where a rule is broken and by what.
RUN_AXE = """async () => (await axe.run(document, { resultTypes: ['violations'] })).violations.flatMap(({ id, nodes }) =>
  nodes.map((node) => `${id}: ${node.target.join(' ')} ${node.failureSummary}`))"""
HORIZONTAL_OVERFLOW = """() => document.documentElement.scrollWidth - innerWidth"""


@cache
def read_axe() -> str:
    script = install_packages(Path(__file__).parent) / "node_modules" / "axe-core" / "axe.min.js"
    return script.read_text(encoding="utf-8")


def list_violations(page: Page) -> list[str]:
    page.evaluate(read_axe())
    violations: list[str] = page.evaluate(RUN_AXE)
    return violations


@pytest.mark.parametrize("name", LOOKS)
def test_views_have_contrast_named_controls_and_no_overflow(harness: BrowserHarness, name: str) -> None:
    scheme, viewport = LOOKS[name]
    dataset = f"looks-{name}"
    order = harness.service.fill_queue(dataset, 8, source="https://annotate.example/tasks/1")
    harness.service.decide(dataset, order[0], "Ana", "error")
    harness.service.decide(dataset, order[1], "Ana", "ok")
    options: dict[str, Any] = {"color_scheme": scheme, "viewport": viewport}
    page = harness.open_page(f"#/queue?dataset={dataset}&state=all", **options)
    expect(page.locator(".item-title")).to_have_text(f"{dataset} / {order[0]}")
    expect(page.locator(".decisions summary")).to_be_visible()
    page.keyboard.press("o")
    expect(page.locator(".toast")).to_be_visible()
    page.locator(".details summary").click()
    page.locator(".word-table summary").click()
    for view in ("queue", "menu", "bulk", "overview", "help"):
        if view == "menu":
            page.keyboard.press("t")
            expect(page.get_by_role("combobox", name="Type of the selected words")).to_be_focused()
        if view == "bulk":
            page.keyboard.press("Escape")
            page.keyboard.press("b")
            expect(page.locator(".bulk-count")).to_be_visible()
            page.get_by_text("Show the sentences").click()
        if view == "overview":
            page.keyboard.press("Escape")
            page.goto(f"{harness.service.address}/#/overview?dataset={dataset}")
            expect(page.locator("#annotators tbody tr").first).to_be_visible()
            page.locator(".classes summary").click()
        if view == "help":
            page.keyboard.press("?")
        assert take_screenshot(page, f"{view}-{name}", full_page=view == "overview").startswith(b"\x89PNG")
        assert page.evaluate(HORIZONTAL_OVERFLOW) <= 0
        assert page.evaluate(LOW_CONTRAST) == []
        assert page.evaluate(CONTROLS_WITHOUT_NAME) == []
        assert list_violations(page) == []


def test_the_focus_is_visible(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("focused", 1)
    page = harness.open_page("#/queue?dataset=focused")
    expect(page.locator(".item-title")).to_have_text(f"focused / {order[0]}")
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        kind, outline = page.evaluate(
            "() => { const focused = document.activeElement, style = getComputedStyle(focused);"
            " return [focused.tagName + '.' + focused.className, style.outlineStyle + ' ' + style.outlineWidth] }"
        )
        if kind == "BODY.":
            break
        seen.add(kind.partition(".")[0])
        assert outline.endswith(("solid 2px", "auto 1px")), f"{kind} has the focus without a sign of it: {outline}"
    assert {"A", "BUTTON", "SELECT", "INPUT", "SPAN", "SUMMARY"} <= seen


def test_a_long_sentence_is_shown_around_its_doubts(harness: BrowserHarness) -> None:
    bad = harness.service.flagged_sentences[0]
    filler = ["and", "so", "on"] * 150
    harness.service.send(
        {
            "tokens": [*bad["tokens"], *filler],
            "labels": [*bad["labels"], *["O"] * len(filler)],
            "dataset": "long",
            "id": "one",
        }
    )
    page = harness.open_page("#/queue?dataset=long")
    expect(page.locator(".item-title")).to_have_text("long / one")
    words = page.locator(".words .w")
    assert words.count() < 120
    page.get_by_role("option", name="words …").first.click()
    expect(words).to_have_count(len(bad["tokens"]) + len(filler))
