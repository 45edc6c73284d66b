"""Decisions by keyboard: the decision sent, the next item, and undo."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from service.labels import Scheme, Span, is_valid_sequence, labels_from_spans, parse_spans
from tests.browser.harness import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.harness import BrowserHarness

TITLE = ".item-title"
ENTRY = ".entry"


def wait_for_decision(harness: BrowserHarness, dataset: str, name: str) -> dict[str, Any]:
    item = wait_for(
        lambda: (item := harness.service.get_item(dataset, name))["state"] == "decided" and item,
        f"a decision about {name}",
    )
    (decision,) = item["decisions"]
    return dict(decision)


def read_colours(page: Page, selector: str) -> dict[str, str]:
    """The colour of each text at a selector."""
    colours: list[tuple[str, str]] = page.locator(selector).evaluate_all(
        "all => all.filter(one => one.textContent).map(one => [one.textContent, getComputedStyle(one).color])"
    )
    return dict(colours)


def test_error_ok_unsure_and_on_to_the_next(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("keyed", 4)
    page = harness.open_page("#/queue?dataset=keyed")
    title = page.locator(TITLE)
    for number, (key, verdict) in enumerate((("e", "error"), ("o", "ok"), ("u", "unsure"))):
        expect(title).to_have_text(f"keyed / {order[number]}")
        page.keyboard.press(key)
        expect(page.locator(ENTRY)).to_have_count(3 - number)
        decision = wait_for_decision(harness, "keyed", order[number])
        assert (decision["verdict"], decision["reviewer"]) == (verdict, "Marta")
    item = harness.service.get_item("keyed", order[0])
    labels = item["decisions"][0]["labels"]
    for flag in item["doubtful"]:
        assert labels[flag["index"]] == flag["suggested"], (
            "an error is corrected as suggested unless the reviewer chooses another label"
        )
    expect(title).to_have_text(f"keyed / {order[3]}")
    page.keyboard.press("o")
    expect(page.locator(".empty-stage")).to_contain_text("4 sentences decided: 1 error, 2 OK, 1 unsure")


def test_the_corrected_label_is_chosen_by_keyboard(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("corrected", 2)
    page = harness.open_page("#/queue?dataset=corrected")
    expect(page.locator(TITLE)).to_have_text(f"corrected / {order[0]}")
    flag = min(harness.service.get_item("corrected", order[0])["doubtful"], key=lambda flag: flag["index"])
    page.keyboard.press("c")
    choice = page.locator(f"[data-choice='{flag['index']}']")
    expect(choice).to_be_focused()
    expect(choice).to_have_value(flag["suggested"])
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = choice.input_value()
    assert chosen not in (flag["suggested"], flag["given"])
    expect(page.locator(".words .w").nth(flag["index"]).locator("i.s")).to_have_text(chosen[2:])
    page.keyboard.press("Enter")
    page.get_by_label("Note").fill("seen in the <b>guide</b>")
    page.keyboard.press("Enter")
    page.keyboard.press("e")
    decision = wait_for_decision(harness, "corrected", order[0])
    assert decision["labels"][flag["index"]] == chosen
    assert decision["note"] == "seen in the <b>guide</b>"


def test_the_table_of_words_is_left_for_the_keys_that_decide(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("left", 2)
    page = harness.open_page("#/queue?dataset=left")
    expect(page.locator(TITLE)).to_have_text(f"left / {order[0]}")
    flag = min(harness.service.get_item("left", order[0])["doubtful"], key=lambda flag: flag["index"])
    page.keyboard.press("c")
    choice = page.locator("[data-choice]:focus")
    expect(choice).to_have_accessible_description(re.compile("Esc goes back to the sentence, where e saves"))
    before = choice.input_value()
    page.keyboard.press("ArrowUp")
    expect(choice).not_to_have_value(before)
    page.keyboard.press("Control+z")
    expect(choice).to_have_value(before)
    page.keyboard.press("Escape")
    expect(page.locator(".w:focus")).to_have_count(1)
    page.keyboard.press("e")
    decision = wait_for_decision(harness, "left", order[0])
    assert decision["labels"][flag["index"]] == flag["suggested"]


def test_a_removed_entity_is_shown_as_no_entity(harness: BrowserHarness) -> None:
    (name,) = harness.service.fill_queue("emptied", 1)
    page = harness.open_page("#/queue?dataset=emptied")
    expect(page.locator(TITLE)).to_have_text(f"emptied / {name}")
    labels = harness.service.get_item("emptied", name)["labels"]
    index = next(index for index, label in enumerate(labels) if label.startswith("B-"))
    word = page.locator(".words .w").nth(index)
    word.click()
    page.keyboard.press("Delete")
    suggested = word.locator("i.s")
    expect(suggested).to_have_text("no entity")
    expect(suggested).to_have_class(re.compile(r"\btn\b"))
    page.keyboard.press("c")  # the labels word by word, at the selected word
    choice = page.locator(f"[data-choice='{index}']")
    expect(choice).to_be_focused()
    expect(choice).to_have_value("O")


def test_corrections_are_in_the_datasets_own_names_and_scheme(harness: BrowserHarness) -> None:
    names = {"PERSON": "PER", "PLACE": "LOC", "FIRM": "ORG", "REST": "MISC"}
    own = {model: name for name, model in names.items()}
    harness.service.call("PUT", "/v1/datasets/own", json={"scheme": "biluo", "label_map": names})
    sentence = next(each for each in harness.service.flagged_sentences if set(each["labels"]) != {"O"})
    entities = [Span(a, b, own[kind]) for a, b, kind in parse_spans(sentence["labels"], Scheme.IOB2)]
    given = {**sentence, "dataset": "own", "labels": labels_from_spans(entities, len(sentence["labels"]), Scheme.BILUO)}
    numbers = count()

    def send_until_judged() -> str | None:
        """Sends repeatedly until an item has suggestions in the dataset's names: the worker may read the settings later."""
        harness.service.send({**given, "id": f"s-{next(numbers)}"})
        for item in harness.service.list_items("own"):
            if all(flag["suggested"] == "O" or flag["suggested"][2:] in names for flag in item["doubtful"]):
                return str(item["id"])
        return None

    name = wait_for(send_until_judged, "the queue of own")
    harness.service.fill_queue("plain", 4)
    page = harness.open_page(f"#/queue?dataset=own&item=own/{name}")
    expect(page.locator(TITLE)).to_have_text(f"own / {name}")
    flag = harness.service.get_item("own", name)["doubtful"][0]
    choices = page.locator(f"[data-choice='{flag['index']}'] option").evaluate_all("all => all.map(one => one.value)")
    offered = {choice for choice in choices if choice.isprintable()}
    assert offered == {"O", *(f"{prefix}-{name}" for name in names for prefix in "BILU")}
    # The colour of a type depends on its name only: the same here, in another context, and in the chart.
    colours = {kind: colour for kind, colour in read_colours(page, ".words i.on").items() if kind in {*names, *own}}
    page.keyboard.press("e")
    labels = wait_for_decision(harness, "own", name)["labels"]
    assert labels[flag["index"]] == flag["suggested"]
    assert is_valid_sequence(labels, Scheme.BILUO)
    assert {label[2:] for label in labels if label != "O"} <= set(names)
    page.goto(f"{harness.service.address}/#/queue?dataset=plain")
    expect(page.locator(TITLE)).to_contain_text("plain / s-")
    shown = page.locator(TITLE).inner_text()
    fresh = harness.open_page(f"#/queue?dataset=plain&item={shown.replace(' / ', '/')}", reviewer="Zoe")
    expect(fresh.locator(TITLE)).to_have_text(shown)
    after, first = read_colours(page, ".words i.on"), read_colours(fresh, ".words i.on")
    assert after == first
    assert set(after) & set(own)
    fresh.goto(f"{harness.service.address}/#/overview?dataset=plain")
    expect(fresh.locator("#thresholds .name").first).to_be_visible()
    drawn = {kind[2:]: colour for kind, colour in read_colours(fresh, "#thresholds .name").items() if kind[1:2] == "-"}
    assert set(drawn) == set(own)
    assert len(set(drawn.values())) == len(own), "the four types of CoNLL-2003 have different colours"
    assert {kind: colour for kind, colour in after.items() if kind in own}.items() <= drawn.items()
    fresh.goto(f"{harness.service.address}/#/queue?dataset=own&state=all&item=own/{name}")
    expect(fresh.locator(TITLE)).to_have_text(f"own / {name}")
    again = read_colours(fresh, ".words i.on")
    assert colours
    assert colours.items() <= again.items()


def test_wrong_without_knowing_the_right_label(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("unknown", 1)
    page = harness.open_page("#/queue?dataset=unknown&state=all")
    expect(page.locator(TITLE)).to_have_text(f"unknown / {order[0]}")
    item = harness.service.get_item("unknown", order[0])
    page.keyboard.press("c")
    for flag in item["doubtful"]:
        page.locator(f"[data-choice='{flag['index']}']").select_option(label="wrong, another label")
    page.get_by_role("button", name="Error").click()
    decision = wait_for_decision(harness, "unknown", order[0])
    assert decision["labels"] is None
    assert decision["words"] == sorted(flag["index"] for flag in item["doubtful"])
    expect(page.locator(".verdict.error")).to_have_attribute("aria-pressed", "true")


def test_undo_opens_it_again(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("undone", 3)
    page = harness.open_page("#/queue?dataset=undone")
    title = page.locator(TITLE)
    expect(title).to_have_text(f"undone / {order[0]}")
    toast = page.locator(".toast")
    page.keyboard.press("z")
    expect(toast).to_contain_text("There is no decision to undo since this page was opened")
    words = page.locator(".words bdi").all_inner_texts()
    index = harness.service.get_item("undone", order[0])["doubtful"][0]["index"]
    page.keyboard.press("o")
    expect(title).to_have_text(f"undone / {order[1]}")
    # One message at a time, with words of the sentence, that covers no field or button.
    expect(toast).to_have_count(1)
    expect(toast).to_contain_text("OK: ")
    expect(toast).to_contain_text(words[index])
    under = toast.bounding_box()
    assert under is not None
    for name in ("#note", ".actions"):
        box = page.locator(name).bounding_box()
        assert box is not None
        apart = under["x"] + under["width"] <= box["x"] or under["y"] + under["height"] <= box["y"]
        assert apart, f"the message covers {name}"
    wait_for_decision(harness, "undone", order[0])
    page.keyboard.press("z")
    expect(toast).to_have_count(1)
    expect(toast).to_contain_text("Undone: ")
    expect(title).to_have_text(f"undone / {order[0]}")
    expect(page.locator(ENTRY)).to_have_count(3)
    item = wait_for(
        lambda: (item := harness.service.get_item("undone", order[0]))["state"] == "open" and item, "the withdrawal"
    )
    assert item["decisions"] == []
    page.keyboard.press("u")
    assert wait_for_decision(harness, "undone", order[0])["verdict"] == "unsure"
    page.goto(f"{harness.service.address}/#/overview")
    expect(toast).to_have_count(0)
    # After a reload the page does not know the last decision: a message links to the decided items.
    page.goto(f"{harness.service.address}/#/queue?dataset=undone")
    page.reload()
    expect(page.locator(ENTRY)).to_have_count(2)
    page.keyboard.press("z")
    toast.get_by_role("button", name="Show").click()
    expect(title).to_have_text(f"undone / {order[0]}")
    page.locator(".decisions").get_by_role("button", name="Undo").click()
    wait_for(lambda: harness.service.get_item("undone", order[0])["state"] == "open", "the second withdrawal")


def test_two_reviewers_and_whether_they_agree(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("shared", 2)
    for name in order:
        harness.service.decide("shared", name, "Ana", "ok", note="as in the guide")
        wait_for_decision(harness, "shared", name)
    page = harness.open_page("#/queue?dataset=shared&state=decided", reviewer="Ben")
    decisions = page.locator(".decisions")
    expect(decisions.locator("summary")).to_contain_text("Decided by Ana")
    expect(decisions.locator("li")).to_be_hidden()  # hidden until the reviewer has decided
    page.keyboard.press("o")
    expect(page.locator(TITLE)).to_have_text(f"shared / {order[1]}")
    page.keyboard.press("e")
    expect(page.locator(ENTRY).nth(1).locator(".tag.differ")).to_be_visible()
    expect(page.locator(ENTRY).first.locator(".tag")).to_have_count(0)
    page.locator(ENTRY).first.click()
    expect(decisions.locator(".tag")).to_have_text("agree")
    expect(decisions.locator("li")).to_have_count(2)
    expect(decisions).to_contain_text("as in the guide")
    page.locator(ENTRY).nth(1).click()
    expect(page.locator(TITLE)).to_have_text(f"shared / {order[1]}")
    expect(decisions.locator(".tag")).to_have_text("differ")


def test_a_choice_survives_a_look_at_another_item(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("drafted", 2)
    page = harness.open_page("#/queue?dataset=drafted")
    expect(page.locator(TITLE)).to_have_text(f"drafted / {order[0]}")
    page.keyboard.press("c")
    choice = page.locator("[data-choice]").first
    choice.select_option("O" if choice.input_value() != "O" else "B-PER")
    chosen = choice.input_value()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.locator(TITLE)).to_have_text(f"drafted / {order[1]}")
    harness.service.send({**harness.service.flagged_sentences[4], "dataset": "drafted", "id": "another"})
    expect(page.locator(ENTRY)).to_have_count(3)
    page.locator(f"[data-key='drafted/{order[0]}']").click()
    expect(page.locator("[data-choice]").first).to_have_value(chosen)


def mark_word(page: Page, index: int) -> str:
    """Selects a word and gives it the first type, by its number key. Returns its new label."""
    page.locator(".words .w").nth(index).click()
    page.keyboard.press("1")
    return page.locator(f"[data-choice='{index}']").input_value()


def find_plain_word(item: dict[str, Any]) -> int:
    """A word that no doubt is about, outside of entities."""
    doubtful = {flag["index"] for flag in item["doubtful"]}
    spans = [span for each in item["suspects"] for span in (each["given_span"], each["suggested_span"]) if span]
    doubtful |= {index for span in spans for index in range(span["start"] - 1, span["end"] + 1)}
    return next(index for index, label in enumerate(item["labels"]) if label == "O" and index not in doubtful)


def test_a_decided_item_shows_the_reviewers_own_correction(harness: BrowserHarness) -> None:
    (name,) = harness.service.fill_queue("own-correction", 1)
    item = harness.service.get_item("own-correction", name)
    index = find_plain_word(item)
    labels = [*item["labels"]]
    labels[index] = "B-MISC"
    harness.service.decide("own-correction", name, "team", "error", labels=labels)
    wait_for_decision(harness, "own-correction", name)
    page = harness.open_page("#/queue?dataset=own-correction&state=decided", reviewer=None)
    expect(page.locator(".words .w").nth(index).locator("i.s")).to_have_text("MISC")
    for flag in item["doubtful"]:
        expect(page.locator(f"[data-choice='{flag['index']}']")).to_have_value(flag["given"])
    with page.expect_request("**/v1/decisions") as request:
        page.keyboard.press("e")
    assert (request.value.post_data_json or {})["labels"] == labels


def test_undo_brings_the_edits_back(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("edited", 2)
    page = harness.open_page("#/queue?dataset=edited")
    title, toast = page.locator(TITLE), page.locator(".toast")
    expect(title).to_have_text(f"edited / {order[0]}")
    index = find_plain_word(harness.service.get_item("edited", order[0]))
    chosen = mark_word(page, index)
    assert chosen != "O"
    choice = page.locator(f"[data-choice='{index}']")
    for key, message in (("e", "Error: "), ("o", "Your edit is not saved")):
        page.keyboard.press(key)
        expect(title).to_have_text(f"edited / {order[1]}")
        expect(toast).to_contain_text(message)
        page.keyboard.press("z")
        expect(title).to_have_text(f"edited / {order[0]}")
        expect(choice).to_have_value(chosen)
    wait_for(lambda: harness.service.get_item("edited", order[0])["decisions"] == [], "the withdrawal")


def test_undo_of_a_changed_decision_leaves_the_first(harness: BrowserHarness) -> None:
    (name,) = harness.service.fill_queue("rethought", 1)
    page = harness.open_page("#/queue?dataset=rethought&state=all")
    expect(page.locator(TITLE)).to_have_text(f"rethought / {name}")

    def wait_for_verdicts(*verdicts: str) -> None:
        wait_for(
            lambda: (
                [each["verdict"] for each in harness.service.get_item("rethought", name)["decisions"]] == [*verdicts]
            ),
            f"the decisions {verdicts}",
        )

    page.keyboard.press("u")
    wait_for_verdicts("unsure")
    page.keyboard.press("Shift+A")
    wait_for_verdicts("error")
    page.keyboard.press("z")
    wait_for_verdicts("unsure")
    expect(page.locator(".verdict.unsure")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("z")
    wait_for_verdicts()
