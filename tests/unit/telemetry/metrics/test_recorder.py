"""The metrics after events, and the bounds of their labels."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from service.contracts import Assessment, Flag, ModelName, SuspectSpan
from service.judging.misfit import find_misfit
from service.statistics.arrivals import FlagCounts
from service.telemetry import BatchReport, SentenceReport, Telemetry, ThresholdReport
from service.telemetry.metrics.bounded_labels import MAX_ANNOTATOR_LABELS, OTHER_DATASETS, AnnotatorLabels, LabelLimit
from service.telemetry.metrics.dataset_labels import MAX_CONFUSION_LABELS
from service.telemetry.metrics.recorder import MAX_DATASET_LABELS, MAX_ROUTE_LABELS

if TYPE_CHECKING:
    import pytest

CLASSES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def read(telemetry: Telemetry) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Sample name → sorted labels → value, as a scraper sees them."""
    body, kind = telemetry.render_exposition()
    assert kind.startswith("text/plain; version=0.0.4")
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return samples


def value(telemetry: Telemetry, name: str, **labels: str) -> float:
    telemetry.render_exposition()  # some are read only then
    sample = telemetry.registry.get_sample_value(f"labelwatch_{name}", labels)
    assert sample is not None, (name, labels)
    return sample


def judged(dataset: str = "news", **fields: object) -> SentenceReport:
    known: dict[str, object] = {
        "annotator": None, "words": 3, "score": 0.5, "priority": 0.5, "reason": "scored", **fields
    }  # fmt: skip
    return SentenceReport(dataset, **known)  # type: ignore[arg-type]  # fields by name, for brevity


def doubted(dataset: str = "news", *pairs: tuple[str, str]) -> Assessment:
    flags = [
        Flag(index=0, token="x", given=given, suggested=suggested, p_given=0.1, p_suggested=0.9)
        for given, suggested in pairs
    ]
    return Assessment(
        dataset=dataset, id="1", tokens=("x",), labels=("O",), reason="flagged", method="worst-token",
        token_score="self-confidence", flags=tuple(flags), suspects=(SuspectSpan(kind="missed", confidence=0.9),),
        model=ModelName(name="m", fingerprint="f"),
    )  # fmt: skip


# -- before anything happened ------------------------------------------------------------------------------------------


def test_known_label_sets_are_created_at_0() -> None:
    telemetry = Telemetry()
    telemetry.register_dataset("default", CLASSES, given_types=["PERSON"])
    telemetry.register_routes([("/v1/score", "POST")])
    samples = read(telemetry)
    for name, labels in {
        "records_total": {},
        "records_lost_total": {},
        "commit_refused_total": {},
        "dead_letters_total": {"stage": "labels"},
        "assessed_sentences_total": {"dataset": "default"},
        "flagged_sentences_total": {"dataset": "default"},
        "score_count": {"dataset": "default"},
        "suspects_total": {"dataset": "default", "kind": "boundary"},
        "annotator_flagged_total": {"dataset": "default", "annotator": "other"},
        "stage_seconds_count": {"role": "api", "stage": "queue"},
        "http_requests_total": {"route": "/v1/score", "method": "POST", "status": "5xx"},
        "http_request_seconds_count": {"route": "/v1/score"},
        "overload_total": {"reason": "queue_full"},
    }.items():
        assert samples[f"labelwatch_{name}"][tuple(sorted(labels.items()))] == 0.0, name
    pairs = {(dict(labels)["given"], dict(labels)["suggested"]) for labels in samples["labelwatch_confusions_total"]}
    types = {"O", "PER", "LOC"}
    assert pairs == {(given, other) for given in {*types, "PERSON"} for other in types} - {("O", "O")}
    assert not any(name.endswith("_created") for name in samples)


def test_each_telemetry_has_its_own_registry_and_importing_has_no_side_effects() -> None:
    first, second = Telemetry(), Telemetry()
    first.count_lost_records(3)
    assert value(first, "records_lost_total") == 3
    assert value(second, "records_lost_total") == 0
    code = (
        "from prometheus_client import REGISTRY\n"
        "before = set(REGISTRY._names_to_collectors)\n"
        "import logging, service.telemetry\n"
        "assert set(REGISTRY._names_to_collectors) == before and not logging.getLogger().handlers"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- a batch -----------------------------------------------------------------------------------------------------------


def test_a_committed_batch() -> None:
    telemetry = Telemetry(annotators="ann, ben")
    report = BatchReport(records=5, latencies=[0.01, 0.2, 3.0])
    report.sentences = [
        judged(score=0.9, priority=0.95, annotator="ann"),
        judged(score=0.0002, priority=0.001, annotator="ann", reason="flagged"),
        judged(score=None, priority=None, annotator="eve", reason="update"),
        judged("other-set", score=-3.0, words=7),
    ]
    report.flagged = [doubted("news", ("B-PER", "I-LOC"), ("O", "B-PER"), ("I-PER", "B-LOC"))]
    report.count_dead_letter("labels")
    report.count_dead_letter("labels")
    report.end_stage("decode")
    report.threshold_reports = {"news": ThresholdReport({"O": 0.98, "B-PER": None}, {"O": 400, "B-PER": 3})}
    telemetry.observe_batch(report)

    assert value(telemetry, "records_total") == 5
    assert value(telemetry, "committed_batches_total") == 1
    assert value(telemetry, "assessed_sentences_total", dataset="news") == 3
    assert value(telemetry, "assessed_words_total", dataset="other-set") == 7
    assert value(telemetry, "flagged_sentences_total", dataset="news") == 1
    assert value(telemetry, "confusions_total", dataset="news", given="PER", suggested="LOC") == 2
    assert value(telemetry, "confusions_total", dataset="news", given="O", suggested="PER") == 1
    assert value(telemetry, "suspects_total", dataset="news", kind="missed") == 1
    assert value(telemetry, "dead_letters_total", stage="labels") == 2
    assert value(telemetry, "score_bucket", dataset="news", le="0.0003") == 1
    assert value(telemetry, "score_count", dataset="news") == 2
    assert value(telemetry, "score_sum", dataset="other-set") == 0.0, "a sum that falls would look like a restart"
    assert value(telemetry, "record_seconds_bucket", le="0.25") == 2
    assert value(telemetry, "stage_seconds_count", role="worker", stage="decode") == 1
    assert value(telemetry, "class_threshold", dataset="news", **{"class": "O"}) == 0.98
    assert (("class", "B-PER"), ("dataset", "news")) not in read(telemetry)["labelwatch_class_threshold"]
    assert value(telemetry, "class_words", dataset="news", **{"class": "B-PER"}) == 3
    telemetry.set_thresholds("news", ThresholdReport({"O": None}, {"O": 0}))
    assert "labelwatch_class_threshold" not in read(telemetry)
    assert value(telemetry, "annotator_sentences_total", dataset="news", annotator="ann") == 2
    assert value(telemetry, "annotator_flagged_total", dataset="news", annotator="ann") == 1
    assert value(telemetry, "annotator_sentences_total", dataset="news", annotator="other") == 1


def test_f1_of_annotators_that_the_settings_name() -> None:
    def read_f1(telemetry: Telemetry) -> dict[str, float]:
        found = read(telemetry).get("labelwatch_annotator_f1", {})
        return {f"{dict(labels)['annotator']} {dict(labels)['bound']}": number for labels, number in found.items()}

    f1 = {"news": {"ann": (0.8, 0.7, 0.9), "eve": (0.2, 0.1, 0.3), "(other)": (0.5, 0.4, 0.6)}}
    telemetry = Telemetry(annotators="ann")
    telemetry.review.set_annotator_f1(f1)
    assert read_f1(telemetry) == {"ann estimate": 0.8, "ann low": 0.7, "ann high": 0.9}
    telemetry.review.set_annotator_f1({"news": {}})
    assert read_f1(telemetry) == {}, "the model was replaced by one that is not good enough"
    silent, first_few = Telemetry(), Telemetry(annotators="*")
    assert [each.review.names_annotators for each in (silent, telemetry, first_few)] == [False, True, True]
    first_few.review.set_annotator_f1({"news": {f"a{number}": (0.5, 0.4, 0.6) for number in range(50)}})
    assert len(read_f1(first_few)) == 3 * MAX_ANNOTATOR_LABELS
    for number in range(MAX_DATASET_LABELS + 5):
        silent.review.set_annotator_f1({f"d{number}": {"ann": (0.5, 0.4, 0.6)}})
    assert read_f1(silent) == {}


def test_lag_has_the_owned_partitions_only() -> None:
    telemetry = Telemetry()
    telemetry.set_lag({0: 5, 3: 7})
    telemetry.set_lag({3: 2})
    assert read(telemetry)["labelwatch_lag_records"] == {(("partition", "3"),): 2.0}


def test_paused_partitions_are_a_number() -> None:
    telemetry = Telemetry()
    telemetry.set_paused_partitions(2)
    assert value(telemetry, "paused_partitions") == 2
    telemetry.set_paused_partitions(0)
    assert value(telemetry, "paused_partitions") == 0


def test_runs_of_the_model_count_padding() -> None:
    telemetry = Telemetry()
    telemetry.observe_model_run(sequences=2, tokens=30, padded=40)
    telemetry.observe_model_run(sequences=1, tokens=10, padded=10)
    assert value(telemetry, "model_tokens_total") / value(telemetry, "model_padded_tokens_total") == 0.8
    assert value(telemetry, "batch_sequences_bucket", le="1.0") == 1


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_a_dataset_may_be_named_other() -> None:
    telemetry = Telemetry(max_datasets=2)
    telemetry.register_dataset("other", CLASSES)
    telemetry.set_thresholds("other", ThresholdReport({"O": 0.5}, {"O": 1}))
    telemetry.review.set_counts("other", states={"open": 1}, verdicts={})
    telemetry.review.set_recall("other", estimate=0.5, low=0.4, high=0.6)
    samples = read(telemetry)
    for name in ("confusions_total", "class_threshold", "review_items", "recall_estimate"):
        assert {dict(labels)["dataset"] for labels in samples[f"labelwatch_{name}"]} == {"other"}


def test_datasets_over_the_limit_share_a_label() -> None:
    telemetry = Telemetry(max_datasets=2)
    report = BatchReport(sentences=[judged(f"d{n}") for n in range(10)], flagged=[doubted(f"d{n}") for n in range(10)])
    report.threshold_reports = {f"d{n}": ThresholdReport({"O": 0.5}, {"O": 1}) for n in range(10)}
    telemetry.observe_batch(report)
    for n in range(10):
        telemetry.register_dataset(f"d{n}", CLASSES)
        telemetry.review.set_counts(f"d{n}", states={"open": 1}, verdicts={})
    samples = read(telemetry)
    assert samples["labelwatch_assessed_sentences_total"] == {
        (("dataset", "d0"),): 1.0,
        (("dataset", "d1"),): 1.0,
        (("dataset", "(other)"),): 8.0,
    }
    datasets = {dict(labels).get("dataset") for series in samples.values() for labels in series}
    assert datasets == {None, "d0", "d1", "(other)"}
    # what is a level and not a count can't be added up over datasets
    for name in ("class_threshold", "review_items"):
        assert {dict(labels)["dataset"] for labels in samples[f"labelwatch_{name}"]} == {"d0", "d1"}


def test_invented_labels_are_bounded() -> None:
    telemetry = Telemetry()
    pairs = [(f"B-T{n}", "O") for n in range(MAX_CONFUSION_LABELS + 50)]
    telemetry.observe_batch(BatchReport(flagged=[doubted("news", *pairs)]))
    series = read(telemetry)["labelwatch_confusions_total"]
    assert len(series) == MAX_CONFUSION_LABELS + 1
    assert value(telemetry, "confusions_total", dataset="news", given="other", suggested="other") == 50


def test_confusions_of_a_model_with_very_many_types_are_not_created_at_0() -> None:
    telemetry = Telemetry()
    telemetry.register_dataset("news", ["O", *(f"B-T{n}" for n in range(200))])
    assert "labelwatch_confusions_total" not in read(telemetry)


def test_very_many_types_take_no_memory_for_their_pairs() -> None:
    """3,000 entries of a label map took 780 MB, and 65,000 ended the process at each start."""
    telemetry = Telemetry()
    telemetry.register_dataset("news", ["O"])
    classes, given_types = ["O", *(f"B-T{n}" for n in range(1_000))], [f"G{n}" for n in range(3_000)]
    tracemalloc.start()
    try:
        telemetry.register_dataset("news", classes, given_types=given_types)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_invented_paths_and_methods_are_bounded() -> None:
    telemetry = Telemetry()
    for n in range(MAX_ROUTE_LABELS + 10):
        telemetry.observe_http_request(route=f"/{n}", method=f"M{n}", status=404, seconds=0.01)
    telemetry.observe_http_request(route="/0", method="GET", status=200, seconds=0.01)
    telemetry.observe_http_request(route="", method="GET", status=404, seconds=0.01)
    series = read(telemetry)["labelwatch_http_requests_total"]
    assert len(series) == MAX_ROUTE_LABELS + 3
    assert value(telemetry, "http_requests_total", route="other", method="other", status="4xx") == 10
    assert value(telemetry, "http_requests_total", route="/0", method="GET", status="2xx") == 1


def test_names_of_annotators_need_a_setting() -> None:
    assert [AnnotatorLabels().to_label(name) for name in ("ann", None, "")] == ["other", "unknown", "unknown"]
    listed = AnnotatorLabels(" ann , ben,,")
    assert [listed.to_label(name) for name in ("ann", "ben", "eve")] == ["ann", "ben", "other"]
    first = AnnotatorLabels("zoe, *")
    labels = {first.to_label(f"n{n}") for n in range(100)}
    assert len(labels) == MAX_ANNOTATOR_LABELS + 1
    assert first.to_label("zoe") == "zoe"
    assert first.to_label("n0") == "n0"


def test_a_label_limit_admits_the_first_values() -> None:
    known: LabelLimit[str] = LabelLimit(2)
    assert ["a" in known, "b" in known, "c" in known, "a" in known] == [True, True, False, True]
    assert known.remaining == 0


# -- what is read at each scrape ---------------------------------------------------------------------------------------


def test_readiness_by_condition() -> None:
    telemetry = Telemetry()
    conditions = {"state": "not read yet", "worker": ""}
    degraded = {"broker": "gone"}
    telemetry.watch_readiness(lambda: conditions, lambda: degraded)
    assert value(telemetry, "ready", condition="state") == 0
    assert value(telemetry, "ready", condition="worker") == 1
    assert value(telemetry, "degraded", condition="broker") == 1
    assert value(telemetry, "degraded", condition="review") == 0, "an alert must find it before it happens"
    conditions["state"] = ""
    degraded.clear()
    conditions["draining"] = "about to stop"
    assert value(telemetry, "ready", condition="draining") == 0
    del conditions["draining"]
    assert value(telemetry, "ready", condition="draining") == 1
    assert value(telemetry, "ready", condition="state") == 1
    assert value(telemetry, "degraded", condition="broker") == 0


def test_a_gauge_that_fails_does_not_fail_the_scrape(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()

    def broken() -> None:
        raise RuntimeError("the queue's file is gone")

    telemetry.on_scrape(broken)
    telemetry.on_scrape(lambda: telemetry.set_lag({0: 4}))
    assert value(telemetry, "lag_records", partition="0") == 4
    assert "the queue's file is gone" in caplog.text


def test_the_queue_and_its_reviewers() -> None:
    telemetry = Telemetry()
    telemetry.review.set_counts("news", states={"open": 4, "decided": 2}, verdicts={"error": 2})
    telemetry.review.set_precision(
        {("news", "B-PER", "B-LOC", "worst-token"): (3, 4), ("news", "I-PER", "I-LOC", "worst-token"): (0, 2)}
    )
    telemetry.review.set_recall("news", estimate=0.8, low=0.6, high=0.9)
    assert value(telemetry, "review_items", dataset="news", state="closed") == 0
    assert value(telemetry, "decisions", dataset="news", verdict="error") == 2
    pair = {"dataset": "news", "given": "PER", "suggested": "LOC", "method": "worst-token"}
    assert value(telemetry, "reviewer_precision", **pair) == 0.5
    assert value(telemetry, "reviewer_precision_items", **pair) == 6
    assert value(telemetry, "recall_estimate", dataset="news", bound="low") == 0.6
    telemetry.review.set_precision({})
    assert "labelwatch_reviewer_precision" not in read(telemetry)
    telemetry.review.set_recall("news", estimate=None, low=None, high=None)
    assert "labelwatch_recall_estimate" not in read(telemetry)


def test_classes_that_a_dataset_no_longer_has_are_removed() -> None:
    """As after a change of its label map: an old threshold would stand still for ever beside the new ones."""
    telemetry = Telemetry()
    telemetry.set_thresholds("news", ThresholdReport({"B-PER": 0.8, "I-PER": 0.7}, {"B-PER": 30, "I-PER": 40}))
    telemetry.set_thresholds("other", ThresholdReport({"B-PER": 0.6}, {"B-PER": 20}))
    telemetry.set_thresholds("news", ThresholdReport({"PER": 0.9}, {"PER": 70}))
    news, other = ("dataset", "news"), ("dataset", "other")
    samples = read(telemetry)
    assert samples["labelwatch_class_threshold"] == {(("class", "PER"), news): 0.9, (("class", "B-PER"), other): 0.6}
    assert samples["labelwatch_class_words"] == {(("class", "PER"), news): 70, (("class", "B-PER"), other): 20}


def test_the_models_in_memory_are_named() -> None:
    telemetry = Telemetry()
    telemetry.add_model("old", "0" * 64)
    telemetry.add_model("new", "ab" * 32)
    old, new = (("fingerprint", "0" * 12), ("name", "old")), (("fingerprint", "ab" * 6), ("name", "new"))
    assert read(telemetry)["labelwatch_model_info"] == {old: 1.0, new: 1.0}
    telemetry.remove_model("old", "0" * 64)
    assert read(telemetry)["labelwatch_model_info"] == {new: 1.0}


def test_waiting_sentences_are_read_at_each_scrape() -> None:
    telemetry = Telemetry()
    waiting = [3]
    telemetry.watch_queue(lambda: waiting[0])
    assert value(telemetry, "http_queue_sentences") == 3
    telemetry.count_overload()
    telemetry.count_overload("draining")
    assert value(telemetry, "overload_total", reason="draining") == 1


# -- a model that does not fit ------------------------------------------------------------------------------------------


def test_a_misfit_is_a_metric_until_the_model_fits() -> None:
    telemetry = Telemetry(max_datasets=1)
    telemetry.register_dataset("news", ["O", "B-PER"])
    assert value(telemetry, "model_misfit", dataset="news") == 0
    misfit = find_misfit(FlagCounts(100, 90))
    telemetry.observe_batch(BatchReport(misfits={"news": misfit, "one-too-many": misfit}))
    assert value(telemetry, "model_misfit", dataset="news") == 1
    assert telemetry.list_misfits() == {"news": misfit}
    telemetry.observe_batch(BatchReport(misfits={"news": None}))
    assert value(telemetry, "model_misfit", dataset="news") == 0
    assert telemetry.list_misfits() == {}


def test_sentences_that_wait_for_a_model_are_set_and_end_at_0() -> None:
    telemetry = Telemetry(max_datasets=2)
    telemetry.register_dataset("news", ["O", "B-PER"])
    assert value(telemetry, "waiting_sentences", dataset="news") == 0
    telemetry.set_waiting({"med": 42, "bio": 3, "law": 4})
    assert value(telemetry, "waiting_sentences", dataset="med") == 42
    assert value(telemetry, "waiting_sentences", dataset=OTHER_DATASETS) == 7
    telemetry.set_waiting({})
    assert value(telemetry, "waiting_sentences", dataset="med") == 0
    assert value(telemetry, "waiting_sentences", dataset=OTHER_DATASETS) == 0
