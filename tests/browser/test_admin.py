"""The pages for dead letters, settings, models, exports and the audit trail: by pointer and by keyboard."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from tests.browser.harness import take_screenshot, wait_for
from tests.browser.test_accessibility import (
    CONTROLS_WITHOUT_NAME,
    HORIZONTAL_OVERFLOW,
    LOOKS,
    LOW_CONTRAST,
    list_violations,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.harness import BrowserHarness, ServiceProcess

TOPICS = Topics()
INTERFACE = (
    '<View><Labels name="label" toName="text"><Label value="PER"/><Label value="LOC"/></Labels>'
    '<Text name="text" value="$text"/></View>'
)


def append(service: ServiceProcess, *values: bytes) -> None:
    """Messages of a producer that REST would refuse."""
    with closing(SqliteLog(service.log_path, TOPICS)) as log:
        log.append([Output(TOPICS.sentences, None, value) for value in values])


def make_dead_letters(service: ServiceProcess, dataset: str, *, n: int = 1) -> list[dict[str, Any]]:
    """Sentences of the dataset with a label outside its label set."""
    service.call("PUT", f"/v1/datasets/{dataset}", json={"label_set": ["PER", "LOC"]})
    sentences = [
        {
            "id": f"g-{number}",
            "dataset": dataset,
            "tokens": ["<img src=x onerror=alert(1)>", "Riga"],
            "labels": ["O", "B-GHOST"],
        }
        for number in range(n)
    ]
    wait_for(lambda: service.call("GET", f"/v1/datasets/{dataset}")["label_set"], "the settings")
    append(service, *(json.dumps(sentence).encode() for sentence in sentences))
    wait_for(lambda: count_letters(service, dataset) == n, "the dead letters")
    return sentences


def count_letters(service: ServiceProcess, dataset: str, **query: str) -> int:
    return int(service.call("GET", "/v1/dead-letters", params={"dataset": dataset, **query})["total"])


def open_as_admin(harness: BrowserHarness, path: str, **options: Any) -> Page:
    return harness.open_page(path, key=harness.service.write_key, **options)


def check_page(page: Page) -> None:
    assert page.evaluate(HORIZONTAL_OVERFLOW) <= 0
    assert page.evaluate(LOW_CONTRAST) == []
    assert page.evaluate(CONTROLS_WITHOUT_NAME) == []
    assert list_violations(page) == []


def test_a_dead_letter_is_read_corrected_and_sent_again(harness: BrowserHarness) -> None:
    service = harness.service
    make_dead_letters(service, "ghosts")
    harness.expected_statuses = {422}
    page = open_as_admin(harness, "#/letters?dataset=ghosts")
    expect(page.get_by_role("link", name="Dead letters")).to_have_attribute("aria-current", "page")
    expect(page.locator("#letters-title")).to_have_text("1 dead letter")
    page.locator(".letters a").focus()
    page.keyboard.press("Enter")
    editor = page.get_by_label("Message")
    expect(editor).to_have_value("""{
  "id": "g-0",
  "dataset": "ghosts",
  "tokens": ["<img src=x onerror=alert(1)>","Riga"],
  "labels": ["O","B-GHOST"]
}""")
    expect(page.get_by_role("button", name="Send the original again")).to_have_count(0)
    editor.fill("{")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#letter-error")).to_contain_text("It is not JSON")
    wrong = {"id": "g-0", "dataset": "ghosts", "tokens": ["a", "Riga"], "labels": ["O"]}
    editor.fill(json.dumps(wrong))
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#letter-error")).to_contain_text("`sentence.labels`: 1 label for 2 words")
    editor.fill(json.dumps({**wrong, "labels": ["O", "B-LOC"], "update": True}))
    page.get_by_role("button", name="Send as corrected").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_have_text("The corrected message is sent.")
    expect(page.locator(".facts")).to_contain_text("Sent again")
    item = wait_for(lambda: service.list_items("ghosts", state="all"), "the corrected sentence")[0]
    assert item["labels"] == ["O", "B-LOC"]
    page.get_by_role("button", name="Back to the list").click()
    expect(page.locator("#letters-title")).to_have_text("0 dead letters")
    page.get_by_label("Show").select_option("yes")
    expect(page.locator("#letters-title")).to_have_text("1 dead letter")


def test_all_letters_of_a_reason_are_sent_after_a_change_of_settings(harness: BrowserHarness) -> None:
    service = harness.service
    make_dead_letters(service, "many-ghosts", n=3)
    page = open_as_admin(harness, "#/letters?dataset=many-ghosts")
    send_all = page.get_by_role("button", name="Send all again")
    send_all.click()
    expect(page.locator(".toast.wrong")).to_contain_text("None would be assessed now")
    service.call(
        "PATCH", "/v1/datasets/many-ghosts", json={"label_set": ["PER", "LOC", "GHOST"], "label_map": {"GHOST": "LOC"}}
    )
    send_all.click()
    toast = page.locator(".toast.lasting")
    expect(toast).to_contain_text("3 messages would be assessed now.")
    assert count_letters(service, "many-ghosts") == 3
    toast.get_by_role("button", name="Send").click()
    expect(page.locator(".toast")).to_have_text("3 messages are sent again.")
    assert count_letters(service, "many-ghosts") == 0


def test_a_message_that_is_not_text_is_shown_as_such(harness: BrowserHarness) -> None:
    append(harness.service, b"\xff\xfe<script>")
    page = open_as_admin(harness, "#/letters?stage=decode")
    page.locator(".letters a").first.click()
    expect(page.locator(".message")).to_have_text("//48c2NyaXB0Pg==")


def test_settings_are_previewed_saved_and_conflicts_are_shown(harness: BrowserHarness) -> None:
    service = harness.service
    service.fill_queue("tuned", 2)
    harness.expected_statuses = {412, 422}
    page = open_as_admin(harness, "#/settings?dataset=tuned")
    share = page.get_by_label("control_share")
    expect(share).to_have_value("0")
    expect(page.locator("#setting-control_share-about")).to_contain_text("Share of unflagged sentences sent to review")
    share.fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#setting-control_share-error")).to_contain_text("control_share")
    expect(share).to_be_focused()
    expect(share).to_have_attribute("aria-invalid", "true")
    share.fill("0.25")
    page.get_by_text("Take the label set from Label Studio").click()
    page.get_by_label("Labelling interface").fill(INTERFACE)
    page.get_by_role("button", name="Fill in the label set").click()
    expect(page.get_by_label("label_set", exact=True)).to_have_value("PER\nLOC")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".status h3")).to_contain_text("control_share")
    assert service.call("GET", "/v1/datasets/tuned")["version"] == 0

    service.call("PATCH", "/v1/datasets/tuned", json={"method": "product"})
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".status")).to_contain_text("Somebody else has changed the settings meanwhile")
    page.get_by_role("button", name="Load their settings and keep my changes").click()
    expect(page.get_by_label("method", exact=True)).to_have_value("product")
    expect(share).to_have_value("0.25")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".status h3")).to_have_text("Version 2 is saved")
    settings = service.call("GET", "/v1/datasets/tuned")
    assert (settings["control_share"], settings["label_set"], settings["method"]) == (0.25, ["PER", "LOC"], "product")
    assert settings["flag_policy"] is None


def test_a_training_is_requested_and_a_model_previewed(harness: BrowserHarness) -> None:
    service = harness.service
    service.fill_queue("modelled", 2)
    page = open_as_admin(harness, "#/models?dataset=modelled")
    expect(page.locator("#registry-title")).to_be_visible()
    expect(page.get_by_role("row", name="default").first).to_contain_text("modelled")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".status h3")).to_have_text("What the change means")
    page.get_by_role("button", name="Train now").focus()
    page.keyboard.press("Enter")
    # The trainer of the service takes the request, and finds too little to train on.
    expect(page.locator("#models-modelled")).to_contain_text("not trained")
    trainings = service.call("GET", "/v1/datasets/modelled/models")["trainings"]
    assert [each["result"] for each in trainings] == ["refused"]


def test_an_export_is_downloaded(harness: BrowserHarness) -> None:
    service = harness.service
    order = service.fill_queue("exported", 3)
    service.decide("exported", order[0], "Ana", "ok")
    page = open_as_admin(harness, "#/export?dataset=exported")
    page.get_by_label("Format").select_option("conll")
    page.get_by_label("Sentences").select_option("decided")
    expect(page.locator(".command code")).to_contain_text("decided_only=true")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "exported.conll"
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.count("# id = ") == 1
    assert f"# id = {order[0]}" in text


def test_the_audit_trail_is_filtered_and_read_to_its_end(harness: BrowserHarness) -> None:
    service = harness.service
    order = service.fill_queue("trail", 2)
    service.decide("trail", order[0], "Ana", "ok")
    service.call("PATCH", "/v1/datasets/trail", json={"method": "product"})
    for number in range(52):  # more than one page
        service.decide("trail", order[1], "Ana", ("ok", "error")[number % 2])
    created = service.call("POST", "/v1/keys", json={"name": "trail-key", "role": "read", "datasets": ["trail"]})
    service.call("DELETE", "/v1/keys/trail-key")
    query = {"dataset": "trail", "limit": 200}
    wait_for(lambda: len(service.call("GET", "/v1/audit", params=query)["records"]) == 54, "the audit trail")

    page = open_as_admin(harness, "#/audit?dataset=trail")
    expect(page.get_by_role("link", name="Audit trail")).to_have_attribute("aria-current", "page")
    changes = page.get_by_role("group", name="Changes, newest first")
    rows = changes.locator("tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("verdict error")
    expect(rows.first.get_by_role("cell").nth(4)).to_have_text(order[1])
    page.get_by_role("button", name="Show more").focus()
    page.keyboard.press("Enter")
    expect(rows).to_have_count(54)
    expect(changes).to_be_focused()
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    expect(rows.last.get_by_role("cell").nth(4)).to_have_text(order[0])

    page.get_by_label("Action").select_option("settings")
    expect(rows).to_have_count(1)
    for text in ("team", "settings", "version 1", "trail", "REST, key"):
        expect(rows.first).to_contain_text(text)
    page.get_by_label("Action").select_option("key-revoked")
    expect(page.get_by_text("There are no such changes.")).to_be_visible()
    page.get_by_label("Dataset").select_option("")
    expect(rows.first).to_contain_text("trail-key")

    key = page.get_by_role("group", name="Keys").get_by_role("row", name="trail-key")
    expect(key.get_by_role("cell").nth(1)).to_have_text("trail")
    expect(key.get_by_role("cell").nth(3)).to_contain_text("by team")
    assert created["key"] not in page.content()


def test_pages_are_for_whoever_may_use_them(harness: BrowserHarness) -> None:
    page = harness.open_page("#/queue", key=harness.service.read_key)
    expect(page.get_by_role("link", name="Export")).to_be_visible()
    for name in ("Settings", "Models", "Audit trail"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_hidden()


@pytest.mark.parametrize("name", LOOKS)
def test_pages_look_right(harness: BrowserHarness, name: str) -> None:
    service, (scheme, viewport) = harness.service, LOOKS[name]
    dataset = f"pages-{name}"
    make_dead_letters(service, dataset, n=2)
    (letter, *_) = service.call("GET", "/v1/dead-letters", params={"dataset": dataset})["items"]
    views = {
        "letters": (f"#/letters?dataset={dataset}", "#letters-title"),
        "letter": (f"#/letters?id={letter['id']}", "#letter-title"),
        "settings": (f"#/settings?dataset={dataset}", "#setting-epoch"),
        "models": (f"#/models?dataset={dataset}", f"#models-{dataset}"),
        "export": (f"#/export?dataset={dataset}", "#export-format"),
        "audit": (f"#/audit?dataset={dataset}", "#keys-title"),
    }
    page = open_as_admin(harness, "#/export", color_scheme=scheme, viewport=viewport)
    for view, (path, ready) in views.items():
        page.goto(f"{service.address}/{path}")
        expect(page.locator(ready)).to_be_visible()
        assert take_screenshot(page, f"{view}-{name}", full_page=True).startswith(b"\x89PNG")
        check_page(page)
