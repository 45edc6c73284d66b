"""The JSON document and the Markdown tables of an evaluation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.evaluation import markdown, paper
from service.evaluation.data import EvaluationData, read_evaluation_data
from service.evaluation.metrics import compute_all_metrics
from service.evaluation.report import EvaluationReport, build_document
from service.evaluation.tables import compare, compute_model_f1, judge_all, measure_agreed, measure_flags, measure_runs
from service.scoring.sentence import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Arrays = dict[str, np.ndarray]


def evaluate_data(data: EvaluationData, *, n: int = 20, against: EvaluationData | None = None) -> EvaluationReport:
    runs = judge_all(data, stream=True)
    return EvaluationReport(
        data=data,
        runs=runs,
        results=measure_runs(runs, n=n),
        flags=[measure_flags(run) for run in runs],
        f1=compute_model_f1(data),
        resamples=n,
        seed=2003,
        against=None if against is None else against.name,
        comparisons=() if against is None else compare(data, against, stream=True, n=n, runs=runs),
        agreed=[result for run in runs for result in measure_agreed(run)],
    )


def section(text: str, title: str) -> list[list[str]]:
    """The table under a heading, as rows of cells."""
    lines = text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_the_three_tables_of_the_paper(data: EvaluationData) -> None:
    report = evaluate_data(data)
    text = markdown.render_markdown(report)
    for title, metric in (
        ("AUPRC", "auprc"),
        ("AUROC", "auroc"),
        ("Lift @ T + 1 (T: number of wrong sentences)", "lift"),
    ):
        head, rule, *rows = section(text, title)
        assert head[:2] == ["sentence score", "token score"]
        assert head[2:6] == ["5 classes, batch", "5 classes, stream", "3 classes, batch", "3 classes, stream"]
        assert head[6:] == ["paper: bert", "paper: xlm", "paper: bert-unmerged"]
        assert {row[0] for row in rows} == {*METHODS, "priority"}
        assert len(rows) == 34
        assert all(len(row) == len(head) == len(rule) for row in rows)
        for method, token_score, *cells in rows:
            if method != "priority":
                printed = getattr(paper.SENTENCE_METRICS[method, token_score or None], metric)
                assert [float(cell) for cell in cells[4:]] == list(printed)
            assert all("[" in cell for cell in cells[:4])


def test_the_best_of_a_column_is_bold(data: EvaluationData) -> None:
    report = evaluate_data(data, n=0)
    _, _, *rows = section(markdown.render_markdown(report), "AUPRC")
    for column in range(2, 6):
        values = {float(row[column].strip("*")): row[column].startswith("**") for row in rows}
        assert values[max(values)]
        assert sum(values.values()) == 1


def test_without_resamples_there_are_no_brackets(data: EvaluationData) -> None:
    text = markdown.render_markdown(evaluate_data(data, n=0))
    assert "[" not in text
    assert "bootstrap" not in text


def test_notes_say_which_rule_sets_the_flags(data: EvaluationData) -> None:
    text = markdown.render_markdown(evaluate_data(data, n=0))
    assert "prune-by-noise-rate" in text
    assert "confident-learning rule with running thresholds" in text
    assert "weights from the whole data set, the judged sentence included" in text


def test_noise_matrix_in_percent_of_the_truth(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["given"] = arrays["corrected"].copy()
    arrays["keep"] = np.ones(80, dtype=bool)
    persons = np.flatnonzero(arrays["corrected"] == 1)
    arrays["given"][persons[0]] = 3
    text = markdown.render_markdown(evaluate_data(read_evaluation_data(save(arrays)), n=0))
    head, _, *rows = section(text, "Noise matrix, 5 classes")
    assert head == ["truth", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    assert rows[1] == ["B-PER", "", "–", "", f"{1 / len(persons):.2%}", ""]
    assert all(cell in {"", "–"} for row in rows[:1] + rows[2:] for cell in row[1:])


def test_document_is_json_and_whole(data: EvaluationData) -> None:
    report = evaluate_data(data)
    document = json.loads(json.dumps(build_document(report), allow_nan=False))
    assert len(document["results"]) == 4 * 38
    assert {
        "level",
        "method",
        "token_score",
        "classes",
        "mode",
        "auprc",
        "ap",
        "auroc",
        "lift_at_t",
        "lift_at_t1",
    } <= set(document["results"][0])
    assert document["data"]["kept_sentences"] == 76
    wrong = int(data.build_variant("merged").wrong_sentences.sum())
    assert document["data"]["variants"]["merged"]["wrong_sentences"] == wrong
    assert document["f1"]["given"]["f1"] == pytest.approx(report.f1["given"].f1 if report.f1 else None)
    counts = np.array(document["noise_matrix"]["unmerged"]["counts"])
    assert counts.sum() - counts.trace() == data.build_variant("unmerged").wrong_words.sum()
    assert [row["mode"] for row in document["flags"]] == ["batch", "stream"] * 2
    assert "against" not in document


def test_comparison_is_in_both(arrays: Arrays, data: EvaluationData, save: Callable[..., Path]) -> None:
    arrays["probs"] = (0.9 * arrays["probs"] + 0.02).astype(np.float32)
    report = evaluate_data(data, against=read_evaluation_data(save(arrays, "flatter.npz")))
    against = build_document(report)["against"]
    assert isinstance(against, dict)
    assert against["name"] == "flatter"
    assert len(against["results"]) == 12
    assert isinstance(against["results"][0]["difference"], float)
    _, _, *rows = section(markdown.render_markdown(report), "small against flatter")
    assert [row[0] for row in rows[:4]] == ["worst-token", "worst-token", "priority", "priority"]


def test_nothing_wrong_leaves_dashes(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["corrected"] = arrays["given"]
    report = evaluate_data(read_evaluation_data(save(arrays)), n=5)
    assert "nan" not in markdown.render_markdown(report)
    assert json.dumps(build_document(report), allow_nan=False)
    _, _, *rows = section(markdown.render_markdown(report), "AUPRC")
    assert {row[2] for row in rows} == {"–"}


def test_headline_holds_the_two_scores_that_matter(data: EvaluationData) -> None:
    lines = markdown.render_headline(evaluate_data(data, n=0)).splitlines()[2:]
    assert [line.split("|")[1].strip() for line in lines] == ["worst-token", "priority"] * 4


def test_priority_is_reported_without_and_with_memory(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["words"] = np.array([f"W{i % 7}" for i in range(len(arrays["given"]))])
    report = evaluate_data(read_evaluation_data(save(arrays)), n=0)
    document = json.loads(json.dumps(build_document(report), allow_nan=False))
    for level in ("sentence", "token"):
        rows = [row for row in document["results"] if (row["level"], row["method"]) == (level, "priority")]
        assert [(row["mode"], row["memory"]) for row in rows] == [
            ("batch", "off"),
            ("stream", "off"),
            ("stream", "auto"),
        ] * 2
    assert {row["memory"] for row in document["results"] if row["method"] != "priority"} == {None}
    text = markdown.render_markdown(report)
    (row,) = [row for row in section(text, "AUPRC") if row[0] == "priority, memory auto"]
    assert row[2] == row[4] == ""
    assert float(row[3].strip("*")) != float(
        next(r for r in section(text, "AUPRC") if r[0] == "priority")[3].strip("*")
    )
    assert "what was seen of the same words" in text


def test_sentences_on_which_two_corrections_agree(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["words"] = np.array([f"W{i % 7}" for i in range(len(arrays["given"]))])
    arrays["second_corrected"] = arrays["corrected"].copy()
    arrays["second_corrected"][:200] = arrays["given"][:200]
    data = read_evaluation_data(save(arrays))
    report = evaluate_data(data, n=0)
    document = json.loads(json.dumps(build_document(report), allow_nan=False))
    variant = data.build_variant("unmerged")
    agreed = variant.agreed_sentences
    assert agreed is not None
    assert document["agreed"]["sentences"]["unmerged"] == int(agreed.sum()) < variant.flat.n_sentences
    (plain,) = [
        row
        for row in document["agreed"]["results"]
        if (row["method"], row["classes"], row["mode"]) == ("worst-token", 5, "batch")
    ]
    scores = report.runs[0].compute_sentence_scores("worst-token", "self-confidence")
    assert plain["auroc"] == compute_all_metrics(scores[agreed], variant.wrong_sentences[agreed])["auroc"]
    _, _, *rows = section(markdown.render_markdown(report), "Sentences on which both corrections agree")
    assert [row[0] for row in rows] == [
        *("worst-token", "priority"),
        *("worst-token", "priority", "priority, memory auto"),
    ] * 2
