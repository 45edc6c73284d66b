"""The console's labels, run by Node: prefilled corrections and the labels that the menu offers."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from service.judging.suspects import find_suspects
from service.labels import Scheme, Span, convert_scheme, find_sequence_problem, is_valid_sequence

if TYPE_CHECKING:
    from collections.abc import Sequence

LABELS_FOLDER = Path(__file__).resolve().parents[3] / "service" / "api" / "console" / "labels"
SCRIPT = """
import { readFileSync } from "node:fs";
const { Scheme } = await import(`${process.argv[1]}/scheme.js`);
const { proposeLabels } = await import(`${process.argv[1]}/proposal.js`);
const { settings, model, items, unused } = JSON.parse(readFileSync(0, "utf8"));
const scheme = Scheme.fromSettings(settings, model, unused);
console.log(JSON.stringify(items.map((item) => [proposeLabels(item, scheme), scheme.listOptions(item)])));
"""
IOB_CLASSES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
BILUO_CLASSES = ("O", *(f"{prefix}-{name}" for name in ("PER", "LOC") for prefix in "BILU"))


def run_labels(
    items: list[dict[str, Any]], *, scheme: Scheme = Scheme.IOB2, unused: Sequence[str] = (), **settings: Any
) -> list[tuple[list[str], list[str]]]:
    """The prefilled labels and the options of each item."""
    classes = BILUO_CLASSES if scheme is Scheme.BILUO else IOB_CLASSES
    message = {
        "settings": {"scheme": scheme.value, **settings},
        "model": {"scheme": scheme.value, "labels": classes},
        "items": items,
        "unused": unused,
    }
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT, LABELS_FOLDER.as_uri()],
        input=json.dumps(message),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [(labels, options) for labels, options in json.loads(ran.stdout)]


def to_json_span(span: Span | None) -> dict[str, Any] | None:
    return None if span is None else span._asdict()


def make_item(given: list[str], probs: np.ndarray[Any, np.dtype[np.float64]], scheme: Scheme) -> dict[str, Any]:
    """A review item as the service makes it from a sentence's probabilities: a word is flagged if another class wins."""
    classes = BILUO_CLASSES if scheme is Scheme.BILUO else IOB_CLASSES
    best = probs.argmax(axis=1)
    flagged = [classes[k] != label for k, label in zip(best, given, strict=True)]
    suspects = find_suspects(given, probs, classes, scheme, flagged)
    return {
        "labels": given,
        "doubtful": [
            {"index": index, "suggested": classes[best[index]], "p_suggested": float(probs[index].max())}
            for index in np.flatnonzero(flagged).tolist()
        ],
        "suspects": [
            {
                **asdict(suspect),
                "given_span": to_json_span(suspect.given_span),
                "suggested_span": to_json_span(suspect.suggested_span),
            }
            for suspect in suspects
        ],
        "thresholds": {},
    }


@pytest.mark.parametrize("scheme", [Scheme.IOB1, Scheme.IOB2, Scheme.BILUO])
@pytest.mark.parametrize("is_given_valid", [True, False])
def test_a_prefilled_correction_is_valid_and_changes_only_words_of_confident_suspects(
    scheme: Scheme, is_given_valid: bool
) -> None:
    classes = BILUO_CLASSES if scheme is Scheme.BILUO else IOB_CLASSES
    rng = np.random.default_rng(7)
    items = []
    for _ in range(300):
        n = int(rng.integers(1, 9))
        given = [classes[k] for k in rng.integers(0, len(classes), n)]
        if is_given_valid:
            given = convert_scheme(given, scheme, scheme)
        items.append(make_item(given, rng.dirichlet([0.3] * len(classes), n), scheme))
    changes = 0
    for item, (labels, _) in zip(items, run_labels(items, scheme=scheme), strict=True):
        given = item["labels"]
        changed = {index for index, (a, b) in enumerate(zip(labels, given, strict=True)) if a != b}
        changes += len(changed)
        assert find_sequence_problem(labels, scheme, changed) is None
        if not is_given_valid:
            continue
        assert is_valid_sequence(labels, scheme)
        words = {flag["index"] for flag in item["doubtful"] if flag["p_suggested"] >= 0.5}
        for suspect in item["suspects"]:
            if suspect["confidence"] >= 0.5:
                spans = [span for span in (suspect["given_span"], suspect["suggested_span"]) if span]
                words |= {word for span in spans for word in range(span["start"], span["end"])}
        # Outside of suspects a word keeps its type; its prefix may follow from its neighbours.
        assert all(labels[index][1:] == given[index][1:] for index in changed - words)
    assert changes


def test_a_doubtful_suspect_is_not_prefilled() -> None:
    span, sure = {"start": 1, "end": 2, "type": "LOC"}, 0.5
    for confidence, expected in ((sure - 0.01, "B-PER"), (sure, "B-LOC"), (None, "B-LOC")):
        item = {
            "labels": ["O", "B-PER"],
            "doubtful": [{"index": 1, "suggested": "B-LOC", "p_suggested": confidence}],
            "suspects": [{"given_span": {**span, "type": "PER"}, "suggested_span": span, "confidence": confidence}],
            "thresholds": {},
        }
        [(labels, _)] = run_labels([item])
        assert labels == ["O", expected]


def test_a_suggestion_outside_the_label_set_is_not_prefilled() -> None:
    """As of a sentence that was judged before the label set was given."""
    flag = {"index": 1, "suggested": "B-LOC", "p_suggested": 0.99}
    span = {"start": 1, "end": 2, "type": "LOC"}
    suspect = {"given_span": {**span, "type": "PER"}, "suggested_span": span, "confidence": 0.99}
    for suspects in ([], [suspect]):
        item = {"labels": ["O", "B-PER"], "doubtful": [flag], "suspects": suspects, "thresholds": {}}
        assert [labels for labels, _ in run_labels([item])] == [["O", "B-LOC"]]
        assert [labels for labels, _ in run_labels([item], label_set=["PER"])] == [["O", "B-PER"]]


def test_the_menu_offers_no_type_that_the_dataset_does_not_use() -> None:
    item = {"labels": ["O"], "doubtful": [], "suspects": [], "thresholds": {}}
    [(_, options)] = run_labels([item], unused=["LOC"])
    assert options == ["O", "B-PER", "I-PER"]
    [(_, options)] = run_labels([item], unused=["LOC"], label_map={"CITY": "LOC"})
    assert options == ["O", "B-PER", "I-PER"]
    [(_, options)] = run_labels([{**item, "labels": ["B-LOC"]}], unused=["LOC"])  # its first label brings it back
    assert options == ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def test_the_menu_offers_only_labels_of_the_label_set() -> None:
    item = {"labels": ["B-LOC", "O"], "doubtful": [], "suspects": [], "thresholds": {}}
    [(_, every)] = run_labels([item])
    assert set(every) == set(IOB_CLASSES)
    [(_, options)] = run_labels([item], label_set=["PER", "DRUG"])
    assert options == ["O", "B-PER", "I-PER", "B-DRUG", "I-DRUG"]
