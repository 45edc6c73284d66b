"""The first minutes of a team with its own labels in the console: 40 sentences with DRUG, DISEASE and SYMPTOM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.harness import ROOT, read_sentences, wait_for

if TYPE_CHECKING:
    from tests.browser.harness import BrowserHarness

BIOMEDICAL = ROOT / "models" / "sample" / "biomedical.tsv"
TYPES = ["DRUG", "DISEASE", "SYMPTOM", "PER"]
LABELS = {"O", *(f"{prefix}-{name}" for name in TYPES for prefix in "BI")}
UNKNOWN_LABEL = "\0"  # the option for a word whose right label the reviewer does not know
QUESTION = {"name": "entities", "settings": {"type": "span", "options": [{"value": name} for name in TYPES]}}


def send_trial(harness: BrowserHarness, dataset: str) -> list[str]:
    """Sends the trial to a dataset with its label set. PER is the only type of it that the default model knows."""
    service = harness.service
    service.call("PATCH", f"/v1/datasets/{dataset}", json={"unmapped": "unscored", "control_share": 1})
    service.call("PUT", f"/v1/datasets/{dataset}/label-set", json=QUESTION)
    city = {"tokens": ["Mr", "Oslo", "took", "aspirin", "in", "Berlin"], "labels": ["O", "O", "O", "B-DRUG", "O", "O"]}
    sentences = [*read_sentences(BIOMEDICAL)[:39], city]
    service.send(*({**each, "dataset": dataset, "id": f"t-{number}"} for number, each in enumerate(sentences)))
    items = wait_for(lambda: len(service.list_items(dataset)) == 40 and service.list_items(dataset), "the queue")
    return [item["id"] for item in items]


def wait_for_item(harness: BrowserHarness, name: str) -> dict[str, Any]:
    def find_decided() -> dict[str, Any] | None:
        item = harness.service.get_item("trial", name)
        return item if item["state"] == "decided" else None

    item: dict[str, Any] = wait_for(find_decided, f"a decision about {name}")
    return item


def test_accepting_a_suggestion_writes_only_labels_of_the_label_set(harness: BrowserHarness) -> None:
    order = send_trial(harness, "trial")
    page = harness.open_page("#/queue?dataset=trial")
    decided: list[dict[str, Any]] = []
    for name in order[:6]:
        expect(page.locator(".item-title")).to_have_text(f"trial / {name}")
        page.keyboard.press("e")
        decided.append(wait_for_item(harness, name))
    for item in decided:
        (decision,) = item["decisions"]
        assert set(decision["labels"] or item["labels"]) <= LABELS


def test_the_menu_offers_only_labels_of_the_label_set(harness: BrowserHarness) -> None:
    send_trial(harness, "trial-menu")
    item = harness.service.get_item("trial-menu", "t-39")
    page = harness.open_page("#/queue?dataset=trial-menu&item=trial-menu%2Ft-39")
    expect(page.locator(".item-title")).to_have_text("trial-menu / t-39")
    for index, word in enumerate(item["tokens"]):
        page.locator(".words .w").nth(index).click()
        page.keyboard.press("c")
        options = page.locator(f"[data-choice='{index}'] option").evaluate_all("all => all.map(one => one.value)")
        assert set(options) - {UNKNOWN_LABEL} == LABELS, word


def test_a_model_that_does_not_fit_is_named_with_what_to_do(harness: BrowserHarness) -> None:
    """Every name is labelled as a place, so the model flags nearly all sentences."""
    service = harness.service
    sentence = {"tokens": ["Angela", "Merkel", "met", "Barack", "Obama"], "labels": ["B-LOC", "I-LOC", "O", "O", "O"]}
    service.send(*({**sentence, "dataset": "misfit", "id": str(number)} for number in range(60)))

    def find_misfit() -> str | None:
        datasets = service.call("GET", "/v1/datasets")["datasets"]
        return next((each["misfit"] for each in datasets if each["name"] == "misfit"), None)

    assert "the model does not fit this data" in wait_for(find_misfit, "the misfit")
    assert "dataset misfit: " in service.call("GET", "/readyz")["degraded"]["model_fit"]
    for path in ("#/queue?dataset=misfit", "#/overview?dataset=misfit", "#/overview"):
        notice = harness.open_page(path).locator(".misfit", has_text="misfit:")
        expect(notice).to_contain_text("labelwatch train FILE --name NAME")
    page = harness.open_page("#/queue?dataset=sample")
    expect(page.locator(".item-title")).to_be_visible()
    expect(page.locator(".misfit")).to_have_count(0)
