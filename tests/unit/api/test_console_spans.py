"""The console's spans.js, colours and type filter, run by Node: every edit of an entity gives valid labels."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.labels import Scheme, Span, convert_scheme, find_sequence_problem, is_valid_sequence, parse_spans

CONSOLE = Path(__file__).resolve().parents[3] / "service" / "api" / "console"
SCRIPT = """
import { readFileSync } from "node:fs";
const { Scheme } = await import(`${process.argv[1]}/labels/scheme.js`);
const { SpanEditor } = await import(`${process.argv[1]}/labels/spans.js`);
const { filterTypes } = await import(`${process.argv[1]}/labels/types_filter.js`);
const { calls, filters } = JSON.parse(readFileSync(0, "utf8"));
const edited = calls.map(({ scheme, given, edits }) => {
  const editor = new SpanEditor(new Scheme(scheme), given);
  let labels = given;
  return edits.map(([method, ...values]) => (labels = editor[method](labels, ...values)));
});
console.log(JSON.stringify({ edited, filtered: filters.map(([types, text]) => filterTypes(types, text)) }));
"""
TYPES = ("PER", "LOC")


def run_console(calls: list[dict[str, Any]], filters: list[tuple[list[str], str]] | None = None) -> Any:
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT, CONSOLE.as_uri()],
        input=json.dumps({"calls": calls, "filters": filters or []}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def edit(scheme: Scheme, given: list[str], *edits: list[Any]) -> list[str]:
    (results,) = run_console([{"scheme": scheme.value, "given": given, "edits": edits}])["edited"]
    return list(results[-1])


def to_json(span: Span) -> dict[str, Any]:
    return span._asdict()


def words(start: int, end: int) -> dict[str, int]:
    return {"start": start, "end": end}


def draw_edit(rng: np.random.Generator, spans: list[Span], n: int) -> tuple[list[Any], set[Span]]:
    """A random edit and the entities that it should leave."""
    start, end = sorted(rng.choice(n + 1, 2, replace=False).tolist())
    kind = TYPES[rng.integers(len(TYPES))]
    outside = {span for span in spans if span.end <= start or span.start >= end}
    method = rng.choice(["mark", "remove", "resize", "split"])
    span = spans[rng.integers(len(spans))] if spans else None
    if method == "resize" and span is not None:
        cut = {
            piece
            for other in spans
            if other != span
            for piece in (
                Span(other.start, min(other.end, start), other.type),
                Span(max(other.start, end), other.end, other.type),
            )
            if piece.start < piece.end
        }
        return ["resize", to_json(span), words(start, end)], {*cut, Span(start, end, span.type)}
    if method == "split" and span is not None and span.end - span.start > 1:
        at = int(rng.integers(span.start + 1, span.end))
        halves = {Span(span.start, at, span.type), Span(at, span.end, span.type)}
        return ["split", to_json(span), at], (set(spans) - {span}) | halves
    if method == "remove":
        return ["remove", words(start, end)], outside
    return ["mark", words(start, end), kind], {*outside, Span(start, end, kind)}


def list_labels(scheme: Scheme) -> list[str]:
    if scheme is Scheme.IO:
        return ["O", *TYPES]
    return ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in ("BILU" if scheme is Scheme.BILUO else "BI"))]


def merge_touching(spans: set[Span]) -> set[Span]:
    """The same words as the scheme io can express them: entities of one type side by side are one."""
    labels: dict[int, str] = {index: span.type for span in spans for index in range(span.start, span.end)}
    merged: list[Span] = []
    for index in sorted(labels):
        if merged and merged[-1].end == index and merged[-1].type == labels[index]:
            merged[-1] = merged[-1]._replace(end=index + 1)
        else:
            merged.append(Span(index, index + 1, labels[index]))
    return set(merged)


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("is_given_valid", [True, False])
def test_every_edit_gives_the_entities_it_should_in_valid_labels(scheme: Scheme, is_given_valid: bool) -> None:
    rng = np.random.default_rng(5)
    calls: list[dict[str, Any]] = []
    expected: list[set[Span]] = []
    for _ in range(400):
        n = int(rng.integers(1, 8))
        given = [str(label) for label in rng.choice(list_labels(scheme), n)]
        if is_given_valid:
            given = convert_scheme(given, scheme, scheme)
        drawn, left = draw_edit(rng, parse_spans(given, scheme), n)
        calls.append({"scheme": scheme.value, "given": given, "edits": [drawn]})
        expected.append(merge_touching(left) if scheme is Scheme.IO else left)
    for call, left, (labels,) in zip(calls, expected, run_console(calls)["edited"], strict=True):
        given = call["given"]
        assert set(parse_spans(labels, scheme)) == left, call
        changed = {index for index, label in enumerate(labels) if label != given[index]}
        assert find_sequence_problem(labels, scheme, changed) is None, call
        if is_given_valid:
            assert is_valid_sequence(labels, scheme), call


@pytest.mark.parametrize("scheme", [Scheme.IOB1, Scheme.IOB2, Scheme.BILUO])
def test_a_rejected_suspect_restores_what_was_given(scheme: Scheme) -> None:
    rng = np.random.default_rng(6)
    calls: list[dict[str, Any]] = []
    for _ in range(200):
        n = int(rng.integers(1, 8))
        given = convert_scheme([str(label) for label in rng.choice(list_labels(scheme), n)], scheme, scheme)
        spans = parse_spans(given, scheme)
        start, end = sorted(rng.choice(n + 1, 2, replace=False).tolist())
        suspect = {
            "given_span": to_json(spans[0]) if spans else None,
            "suggested_span": {**words(start, end), "type": "PER"},
        }
        calls.append(
            {
                "scheme": scheme.value,
                "given": given,
                "edits": [["acceptSuspects", [suspect]], ["rejectSuspect", suspect]],
            }
        )
    for call, (accepted, rejected) in zip(calls, run_console(calls)["edited"], strict=True):
        suggested = call["edits"][1][1]["suggested_span"]
        assert Span(**suggested) in parse_spans(accepted, scheme)
        assert is_valid_sequence(accepted, scheme)
        assert rejected == call["given"]


def test_an_entity_keeps_the_spelling_of_its_labels() -> None:
    given = ["S-PER", "O", "B-LOC", "E-LOC", "O"]
    assert edit(Scheme.BILUO, given, ["mark", words(4, 5), "PER"]) == ["S-PER", "O", "B-LOC", "E-LOC", "U-PER"]
    assert edit(Scheme.IO, ["I-PER", "O"], ["mark", words(1, 2), "LOC"]) == ["I-PER", "I-LOC"]
    assert edit(Scheme.IO, ["PER", "O"], ["mark", words(1, 2), "LOC"]) == ["PER", "LOC"]


def test_entities_side_by_side_stay_apart() -> None:
    assert edit(Scheme.IOB2, ["O", "I-PER"], ["mark", words(0, 1), "PER"]) == ["B-PER", "B-PER"]
    assert edit(Scheme.IOB1, ["O", "I-PER"], ["mark", words(0, 1), "PER"]) == ["I-PER", "B-PER"]
    assert edit(Scheme.IOB1, ["I-PER", "I-PER"], ["split", {**words(0, 2), "type": "PER"}, 1]) == ["I-PER", "B-PER"]
    assert edit(Scheme.IO, ["PER", "PER"], ["split", {**words(0, 2), "type": "PER"}, 1]) == ["PER", "PER"]


def test_the_filter_of_types_prefers_beginnings() -> None:
    types = ["PERSON", "WORK_OF_ART", "GPE", "DATE", "PERCENT"]
    wanted = [(types, ""), (types, "per"), (types, "art"), (types, "E"), (types, "drug")]
    assert run_console([], wanted)["filtered"] == [
        types,
        ["PERSON", "PERCENT"],
        ["WORK_OF_ART"],
        ["PERSON", "GPE", "DATE", "PERCENT"],
        [],
    ]
