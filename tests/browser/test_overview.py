"""The overview: every chart shows the numbers of the API."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import read_sample, take_screenshot, wait_for

if TYPE_CHECKING:
    from tests.browser.harness import BrowserHarness


def test_charts_have_the_numbers(harness: BrowserHarness) -> None:
    service = harness.service
    flagged = service.list_items("sample", state="all")
    for number, item in enumerate(flagged[:4]):
        service.decide("sample", item["id"], "ana", "ok" if number == 3 else "error")
    wait_for(lambda: len(service.list_items("sample", state="decided")) >= 4, "the decisions")
    overview = service.call("GET", "/v1/overview", params={"dataset": "sample"})
    page = harness.open_page("#/overview?dataset=sample")
    figures = page.locator(".figures")
    expect(figures.locator(".open dd")).to_have_text(str(overview["counts"]["open"]))
    expect(figures.locator(".precision dd")).to_have_text("75.0\u202f%")
    share = len(flagged) / len(read_sample())
    expect(figures.locator(".rate dd")).to_have_text(f"{100 * share:.1f}\u202f%")

    today = datetime.now(UTC)
    name = f"{today:%b} {today.day}"
    by_day = page.locator("#flagged")
    expect(by_day.locator("h2")).to_have_text("Flagged")
    expect(by_day.locator("title", has_text=f"{name}: {len(flagged)} sentences flagged")).to_have_count(1)
    expect(by_day.locator("rect.bar")).to_have_count(1)
    expect(page.locator("#precision title", has_text=f"{name}: 3 of 4 decided sentences wrong")).to_have_count(1)
    for name, css in (("items", "doubt"), ("sentences", "all")):
        counts = [entry[name] for entry in overview["priorities"]]
        expect(page.locator(f"#scores rect.bar.{css}")).to_have_count(sum(count > 0 for count in counts))
    assert sum(entry["sentences"] for entry in overview["priorities"]) == len(read_sample())
    assert sum(entry["items"] for entry in overview["priorities"]) == len(flagged)
    learned = service.call("GET", "/v1/datasets/sample/thresholds")
    lines = page.locator("#thresholds path.line title")
    expect(lines).to_have_text([entry["name"] for entry in learned["classes"]])
    # Their length depends on how long the service has run.
    assert all(
        page.locator("#thresholds path.line").evaluate_all("lines => lines.map(line => line.getTotalLength() > 0)")
    )
    heads = page.locator("#annotators thead th")
    expect(heads).to_have_text(
        ["Annotator", "Sentences", "Ever in review", "Decided", "Wrong", "Wrong per 100", "F1 (95 %)", "Differs most"]
    )
    times = page.locator("#thresholds .tick").all_text_contents()
    clocks = [time for time in times if ":" in time]
    assert len(clocks) == len(set(clocks))
    rows = page.locator("#annotators tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("bo")
    expect(rows.first.locator("td.num").nth(0)).to_have_text(str(len(read_sample())))
    expect(rows.first.locator("td.num").nth(2)).to_have_text("4")
    expect(rows.first.locator("td.num").nth(3)).to_have_text("3")

    most = overview["confusions"][0]
    cell = page.get_by_role("link", name=f"given {most['given']}, suggested {most['suggested']}")
    expect(cell).to_have_text(str(most["items"]))
    cell.click()
    expect(page.locator(".entry")).to_have_count(most["items"])
    query = re.findall(r"(given|suggested|dataset)=([^&]+)", page.url)
    assert dict(query) == {"given": most["given"], "suggested": most["suggested"], "dataset": "sample"}


def test_it_follows_by_itself_and_over_all_datasets(harness: BrowserHarness) -> None:
    harness.service.fill_queue("counted", 1)
    page = harness.open_page("#/overview")
    shown = page.locator(".figures .open dd")
    expect(shown).not_to_have_text("0")
    before = int(shown.inner_text())
    harness.service.send({**harness.service.flagged_sentences[3], "dataset": "counted", "id": "more"})
    expect(shown).to_have_text(str(before + 1))
    page.get_by_label("Dataset").select_option("counted")
    expect(shown).to_have_text("2")
    expect(page.locator("#thresholds h2")).to_have_text("Class thresholds")


def test_the_page_shows_what_the_ranker_has_learned(harness: BrowserHarness) -> None:
    service = harness.service
    order = service.fill_queue("ranked", 26)
    page = harness.open_page("#/overview?dataset=ranked")
    expect(page.locator("#ranker .empty")).to_contain_text("the ranker starts after 25 decisions")
    for number, name in enumerate(order[:25]):
        service.decide("ranked", name, "ana", "ok" if number % 3 else "error")
    wait_for(lambda: service.call("GET", "/v1/overview", params={"dataset": "ranked"})["ranker"], "the ranker")
    overview = service.call("GET", "/v1/overview", params={"dataset": "ranked"})
    offsets = overview["ranker"]
    rows = page.locator("#ranker tbody tr")
    sooner = sorted(offsets, key=lambda name: -offsets[name])
    by_size = sorted(overview["ranker_pairs"], key=lambda pair: -abs(pair["offset"]))
    pairs = [f"{pair['given']} → {pair['suggested']}" for pair in by_size if abs(pair["offset"]) >= 0.005]
    assert 0 < len(pairs) < len(by_size)  # the smallest are not shown
    expect(rows.locator("th")).to_have_text([*sooner, *pairs])
    expect(rows.first.locator("td").first).to_have_text(f"{offsets[sooner[0]]:+.2f}".replace("-", "\u2212"))
    take_screenshot(page, "ranker", full_page=True)
    page.get_by_label("Dataset").select_option("")
    expect(page.locator("#ranker")).to_have_count(0)
