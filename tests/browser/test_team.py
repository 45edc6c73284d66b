"""A team in several browsers: items are handed out, decided independently, and settled where reviewers differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.harness import take_screenshot, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.harness import BrowserHarness, ServiceProcess

TITLE = ".item-title"
ENTRY = ".entry"
ITEMS = 20


def read_open_id(page: Page, dataset: str) -> str | None:
    """The id of the open item; None if the page says that there is none."""
    expect(page.locator(f"{TITLE}, .empty-stage").first).to_be_visible()
    # Read at once: the page may change between two looks.
    title: str | None = page.evaluate(f"document.querySelector({TITLE!r})?.textContent ?? null")
    return None if title is None else title.removeprefix(f"{dataset} / ")


def fill_double_queue(service: ServiceProcess, dataset: str, items: int) -> list[str]:
    service.call("PATCH", f"/v1/datasets/{dataset}", json={"overlap": 2})
    sentences = service.flagged_sentences
    service.send(
        *(
            {**sentences[number % len(sentences)], "dataset": dataset, "id": f"s-{number}", "annotator": "kim"}
            for number in range(items)
        )
    )
    listed = wait_for(lambda: len(found := service.list_items(dataset)) == items and found, f"the queue of {dataset}")
    return [item["id"] for item in listed]


def test_two_reviewers_decide_twenty_items_independently(harness: BrowserHarness) -> None:
    service = harness.service
    order = fill_double_queue(service, "double", ITEMS)
    disputed = set(order[::4])
    pages = {name: harness.open_page("#/queue?dataset=double", reviewer=name) for name in ("Ana", "Ben")}
    decided: dict[str, list[str]] = {"Ana": [], "Ben": []}
    finished: set[str] = set()
    for _ in range(20 * ITEMS):
        for name, page in pages.items():
            other = "Ben" if name == "Ana" else "Ana"
            open_id = read_open_id(page, "double")
            if open_id is None:
                if len(decided[name]) == ITEMS:
                    finished.add(name)
                else:
                    page.wait_for_timeout(200)  # the other reviewer has the rest open
                continue
            if open_id in decided[name]:
                page.wait_for_timeout(50)  # the next item is on its way
                continue
            assert open_id != read_open_id(pages[other], "double") or open_id in decided[other]
            expect(page.locator(".decisions li")).to_have_count(0)  # the other's decision is hidden
            page.keyboard.press("u" if name == "Ben" and open_id in disputed else "o")
            decided[name].append(open_id)
        if len(finished) == len(pages):
            break
    assert {name: sorted(ids) for name, ids in decided.items()} == {name: sorted(order) for name in decided}
    wait_for(
        lambda: {item["id"] for item in service.list_items("double", state="adjudication")} == disputed,
        "the adjudication list",
    )
    wait_for(lambda: len(service.list_items("double", state="decided")) == ITEMS - len(disputed), "the decided items")
    assert service.list_items("double") == []
    for item in service.list_items("double", state="all"):
        assert [decision["reviewer"] for decision in item["decisions"]] == ["Ana", "Ben"]


def test_a_third_reviewer_settles_what_two_differ_about(harness: BrowserHarness) -> None:
    service = harness.service
    first, second, _ = fill_double_queue(service, "settled", 3)
    for name in (first, second):
        service.decide("settled", name, "Ana", "ok", note="a person")
        item = service.get_item("settled", name)
        suggestion = {flag["index"]: flag["suggested"] for flag in item["doubtful"]}
        service.decide("settled", name, "Ben", "error", words=sorted(suggestion))
    wait_for(lambda: len(service.list_items("settled", state="adjudication")) == 2, "the adjudication list")
    page = harness.open_page("#/queue?dataset=settled&state=adjudication", reviewer="Marta")
    expect(page.locator(ENTRY)).to_have_count(2)
    answers = page.locator(".side-by-side tr")
    expect(answers).to_have_count(4)
    expect(answers.locator("th")).to_have_text(["As given ", "Ana OK", "Ben Error", "Model "])
    expect(answers.nth(1)).to_contain_text("a person")
    expect(answers.nth(2)).to_contain_text("Wrong, without a correction:")
    expect(page.locator(".notice", has_text="Your decision settles it.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Unsure"))).to_be_disabled()
    take_screenshot(page, "adjudication")
    page.keyboard.press("o")
    expect(page.locator(ENTRY)).to_have_count(1)
    item = wait_for(
        lambda: (item := service.get_item("settled", first))["state"] == "decided" and item, "the settled item"
    )
    assert [(each["reviewer"], each["adjudication"]) for each in item["decisions"]] == [
        ("Ana", False),
        ("Ben", False),
        ("Marta", True),
    ]
    page.keyboard.press("z")
    expect(page.locator(TITLE)).to_have_text(f"settled / {first}")
    wait_for(lambda: service.get_item("settled", first)["state"] == "adjudication", "the undo")
    own = harness.open_page(f"#/queue?dataset=settled&state=adjudication&item=settled/{first}", reviewer="Ana")
    expect(own.locator(".notice", has_text="another reviewer settles it")).to_be_visible()


def test_the_overview_shows_how_far_reviewers_agree(harness: BrowserHarness) -> None:
    service = harness.service
    first, second = fill_double_queue(service, "agreed", 2)
    for reviewer in ("Ana", "Ben"):
        service.decide("agreed", first, reviewer, "ok")
    item = service.get_item("agreed", second)
    labels = ["O"] * len(item["labels"])
    service.decide("agreed", second, "Ana", "ok")
    service.decide("agreed", second, "Ben", "error", labels=labels)
    wait_for(lambda: service.call("GET", "/v1/datasets/agreed/agreement")["items"] == 2, "the agreement")
    page = harness.open_page("#/overview?dataset=agreed", reviewer="Marta")
    row = page.locator(".agreement tbody tr")
    expect(row.locator("th")).to_have_text("Ana and Ben")
    expect(row.locator("td").first).to_have_text("2")
    page.get_by_role("link", name="1 sentence in adjudication").click()
    expect(page.locator(TITLE)).to_have_text(f"agreed / {second}")


def test_the_end_of_the_queue_leads_to_what_reviewers_differ_about(harness: BrowserHarness) -> None:
    service = harness.service
    (only,) = fill_double_queue(service, "differing", 1)
    service.decide("differing", only, "Ana", "ok")
    service.decide("differing", only, "Ben", "unsure")
    wait_for(lambda: len(service.list_items("differing", state="adjudication")) == 1, "the adjudication list")
    stage = (page := harness.open_page("#/queue?dataset=differing", reviewer="Marta")).locator(".empty-stage")
    expect(stage).to_contain_text("Reviewers differ about 1 sentence")
    stage.get_by_role("link", name="Settle 1 sentence").click()
    expect(page.locator(TITLE)).to_have_text(f"differing / {only}")


def test_closing_the_tab_gives_the_item_back(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("given-back", 2)
    page = harness.open_page("#/queue?dataset=given-back", reviewer="Ana")
    expect(page.locator(TITLE)).to_have_text(f"given-back / {order[0]}")
    wait_for(lambda: harness.service.get_item("given-back", order[0])["claimed_by"] == "Ana", "the claim")
    page.close()
    wait_for(lambda: harness.service.get_item("given-back", order[0])["claimed_by"] is None, "giving it back")
