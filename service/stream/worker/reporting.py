"""What a worker knows beside a batch's own numbers, told to whoever listens: datasets, thresholds, waiting times."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings
from service.labels import OUTSIDE, get_entity_type
from service.log.codec import ERROR_HEADER_PREFIX, get_header
from service.telemetry.batch_report import ThresholdReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.datasets.registry import DatasetRegistry
    from service.judging.judge import Judge
    from service.log.protocol import Output, RecordBatch
    from service.stream.state.snapshot import StateSnapshot
    from service.telemetry.batch_report import BatchReport, Reporter

logger = logging.getLogger(__name__)

UNKNOWN = "(unknown)"
_DATASET_NAME = re.compile(r"[a-z0-9._-]{1,64}")
MAX_REASON_CHARS = 500  # characters of a reason: the rest is in the dead letter
MAX_LOGGED_KINDS = 5  # told of one batch: datasets are the producers' to invent


def log_dead_letters(letters: Iterable[Output]) -> None:
    """Each kind of a batch's dead letters once, with the first reason: who sent them was told that all is well."""
    kinds: dict[tuple[str, str], tuple[int, str]] = {}
    for letter in letters:
        ours = letter.headers[::-1]  # a producer may have sent such headers himself
        kind = get_header(ours, f"{ERROR_HEADER_PREFIX}.stage") or UNKNOWN, _parse_dataset(letter.value)
        number, first = kinds.get(kind, (0, get_header(ours, f"{ERROR_HEADER_PREFIX}.exception.message") or ""))
        kinds[kind] = number + 1, first
    for (stage, dataset), (number, first) in list(kinds.items())[:MAX_LOGGED_KINDS]:
        shown = "".join(each if each.isprintable() else "\ufffd" for each in first[:MAX_REASON_CHARS])
        logger.warning("dead letters: %d of stage %s, dataset %s; the first: %s", number, stage, dataset, shown)
    if len(kinds) > MAX_LOGGED_KINDS:
        logger.warning("dead letters: %d more kinds, see `labelwatch dead-letters list`", len(kinds) - MAX_LOGGED_KINDS)


def _parse_dataset(value: bytes | None) -> str:
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return UNKNOWN
    name = found.get("dataset", DatasetSettings().name) if isinstance(found, dict) else UNKNOWN
    return name if isinstance(name, str) and _DATASET_NAME.fullmatch(name) else UNKNOWN


def register_datasets(reporter: Reporter, datasets: DatasetRegistry, snapshot: StateSnapshot) -> None:
    """Tells of the datasets that are set up or have statistics, so that their numbers can begin at 0."""
    reporter.set_refused_settings(len(datasets.refused_settings))
    for dataset in sorted({DatasetSettings().name, *snapshot.datasets, *datasets.names}):
        # One that only has statistics is not made a dataset by this: there may be as many as somebody sent once.
        judge = (
            datasets.get_judge(dataset) if dataset in datasets else datasets.build_judge(DatasetSettings(name=dataset))
        )
        types = {get_entity_type(label) for label in judge.settings.label_map}
        reporter.register_dataset(dataset, _list_suggestible_labels(judge), given_types=types)
        reporter.set_thresholds(dataset, threshold_report(judge, snapshot))


def _list_suggestible_labels(judge: Judge) -> Sequence[str]:
    """Labels of all types that a flag may suggest, as the dataset calls them."""
    if judge.label_writer.is_identity:
        return judge.classes
    return [*(name for name in judge.classes if name == OUTSIDE), *(f"B-{name}" for name in judge.label_writer.types)]


def finish_report(report: BatchReport, batch: RecordBatch, datasets: DatasetRegistry, snapshot: StateSnapshot) -> None:
    """What is known of a batch once it is committed. `ledger`: with what was learned from it."""
    report.end_stage("commit")
    now = time.time()
    report.latencies = [
        max(0.0, now - record.timestamp_ms / 1000)  # the producer's clock may be ahead of ours
        for records in batch.records.values()
        for record in records
        if record.timestamp_ms
    ]
    for dataset in {one.dataset for one in report.sentences}:
        report.threshold_reports[dataset] = threshold_report(datasets.get_judge(dataset), snapshot)


def threshold_report(judge: Judge, snapshot: StateSnapshot) -> ThresholdReport:
    stats = snapshot.get_stats(judge)
    words = stats.get_total().counts
    return ThresholdReport(judge.build_threshold_set(stats).by_class, dict(zip(judge.classes, words, strict=True)))
