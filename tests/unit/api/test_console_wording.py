"""The console's texts, run by Node: what is wrong with an item, and what earlier words say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

CONSOLE = Path(__file__).resolve().parents[3] / "service" / "api" / "console"
SCRIPT = """
import { readFileSync } from "node:fs";
const { describeDoubts, formatParts } = await import(`${process.argv[1]}/queue/wording.js`);
const { describeEvidence } = await import(`${process.argv[1]}/item/because.js`);
const { items, evidence } = JSON.parse(readFileSync(0, "utf8"));
const doubts = items.map((item) => describeDoubts(item).map(formatParts));
console.log(JSON.stringify({ doubts, evidence: evidence.map(describeEvidence) }));
"""
TOKENS = ["The", "Lakeside", "Bus", "Drivers'", "Union", "beat", "Real", "Madrid"]


def run_console(*, items: list[dict[str, Any]] | None = None, evidence: list[dict[str, Any]] | None = None) -> Any:
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT, CONSOLE.as_uri()],
        input=json.dumps({"items": items or [], "evidence": evidence or []}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def make_span(start: int, end: int, name: str) -> dict[str, Any]:
    return {"start": start, "end": end, "type": name}


def make_flag(index: int, given: str, suggested: str, p_given: float | None = 0.1) -> dict[str, Any]:
    return {"index": index, "token": TOKENS[index], "given": given, "suggested": suggested, "p_given": p_given}


def describe(suspects: list[dict[str, Any]], flags: list[dict[str, Any]] | None = None) -> list[str]:
    (texts,) = run_console(items=[{"tokens": TOKENS, "suspects": suspects, "doubtful": flags or []}])["doubts"]
    return list(texts)


@pytest.mark.parametrize(
    ("given", "suggested", "text"),
    [
        (None, make_span(1, 5, "ORG"), "Missed ORG: Lakeside Bus Drivers' Union"),
        (make_span(6, 8, "LOC"), make_span(6, 8, "ORG"), "LOC should be ORG: Real Madrid"),
        (make_span(0, 1, "LOC"), None, "Not an entity, labelled LOC: The"),
        (make_span(7, 8, "ORG"), make_span(6, 8, "ORG"), "ORG has the wrong boundary: Real Madrid, not Madrid"),
        (make_span(7, 8, "LOC"), make_span(6, 8, "ORG"), "LOC should be ORG: Real Madrid, not Madrid"),
    ],
)
def test_a_suspect_in_words(given: dict[str, Any] | None, suggested: dict[str, Any] | None, text: str) -> None:
    assert describe([{"given_span": given, "suggested_span": suggested}]) == [text]


def test_the_worst_comes_first_and_every_flag_is_told_once() -> None:
    missed = {"given_span": None, "suggested_span": make_span(1, 5, "ORG")}
    wrong = {"given_span": make_span(6, 8, "LOC"), "suggested_span": make_span(6, 8, "ORG")}
    flags = [make_flag(0, "B-LOC", "O", 0.3), make_flag(2, "O", "I-ORG", 0.2), make_flag(6, "B-LOC", "B-ORG", 0.01)]
    assert describe([missed, wrong], flags) == [
        "LOC should be ORG: Real Madrid",
        "Missed ORG: Lakeside Bus Drivers' Union",
        "Not an entity, labelled B-LOC: The",
    ]
    hidden = [flag | {"p_given": None} for flag in flags]  # a blind item
    assert describe([missed, wrong], hidden)[0] == "Missed ORG: Lakeside Bus Drivers' Union"


def test_a_flag_without_a_suspect_in_words() -> None:
    flags = [make_flag(7, "B-LOC", "I-LOC"), make_flag(1, "O", "B-ORG")]
    assert describe([], flags) == ["B-LOC should be I-LOC: Madrid", "Missed B-ORG: Lakeside"]


def test_a_long_entity_is_cut() -> None:
    item = {
        "tokens": ["x"] * 30,
        "doubtful": [],
        "suspects": [{"given_span": None, "suggested_span": make_span(0, 30, "ORG")}],
    }
    assert run_console(items=[item])["doubts"] == [["Missed ORG: " + "x " * 12 + "…"]]


@pytest.mark.parametrize(
    ("because", "text"),
    [
        (
            {"kind": "mentions", "words": 7, "sentences": 200, "by_type": {"ORG": 6.07, "LOC": 0.9, "O": 0.1}},
            "Seen 7 times in the last 200 sentences, 6 as ORG, 1 as LOC",
        ),
        (
            {"kind": "older_mentions", "words": 1, "sentences": 4000, "by_type": {"O": 0.98}},
            "Seen 1 time in 4,000 older sentences, always as no entity",
        ),
        (
            {"kind": "pattern", "words": 3, "sentences": 1, "by_type": {"LOC": 3}},
            "Words in the same surroundings: seen 3 times in the last 1 sentence, always as LOC",
        ),
    ],
)
def test_evidence_in_words(because: dict[str, Any], text: str) -> None:
    assert run_console(evidence=[because])["evidence"] == [text]
