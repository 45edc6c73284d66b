"""What a worker reports beside the counts of a batch: dead letters to the log; datasets, thresholds and latencies to metrics."""

from __future__ import annotations

import json
import logging
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings
from service.errors import MissingModelError
from service.judging.misfit import find_misfit
from service.labels import OUTSIDE, get_entity_type
from service.log.codec import ERROR_HEADER_PREFIX, get_header
from service.statistics.arrivals import NO_FLAGS
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
MAX_REASON_CHARS = 500  # the dead letter has the full reason
MAX_LOGGED_KINDS = 5  # per batch, since producers can invent dataset names


def log_dead_letters(letters: Iterable[Output]) -> None:
    """Logs each kind of dead letter in a batch once, with the first reason: their producers got no error."""
    kinds: dict[tuple[str, str], tuple[int, str]] = {}
    for letter in letters:
        headers = letter.headers[::-1]  # ours come last: the producer may have sent headers with the same names
        kind = get_header(headers, f"{ERROR_HEADER_PREFIX}.stage") or UNKNOWN, _parse_dataset(letter.value)
        count, reason = kinds.get(kind, (0, get_header(headers, f"{ERROR_HEADER_PREFIX}.exception.message") or ""))
        kinds[kind] = count + 1, reason
    for (stage, dataset), (count, reason) in list(kinds.items())[:MAX_LOGGED_KINDS]:
        printable = "".join(char if char.isprintable() else "\ufffd" for char in reason[:MAX_REASON_CHARS])
        logger.warning("dead letters: %d of stage %s, dataset %s; the first: %s", count, stage, dataset, printable)
    if len(kinds) > MAX_LOGGED_KINDS:
        logger.warning("dead letters: %d more kinds, see `labelwatch dead-letters list`", len(kinds) - MAX_LOGGED_KINDS)


def _parse_dataset(value: bytes | None) -> str:
    try:
        message = json.loads(value or b"")
    except (ValueError, RecursionError):
        return UNKNOWN
    name = message.get("dataset", DatasetSettings().name) if isinstance(message, dict) else UNKNOWN
    return name if isinstance(name, str) and _DATASET_NAME.fullmatch(name) else UNKNOWN


def register_datasets(reporter: Reporter, datasets: DatasetRegistry, snapshot: StateSnapshot) -> None:
    """Registers the datasets that have settings or statistics, so that their metrics start at 0."""
    reporter.set_refused_settings(len(datasets.refused_settings))
    for dataset in sorted({DatasetSettings().name, *snapshot.datasets, *datasets.names}):
        # A dataset with statistics only is not added to the registry: producers may have sent many names once.
        try:
            judge = (
                datasets.get_judge(dataset)
                if dataset in datasets
                else datasets.build_judge(DatasetSettings(name=dataset))
            )
        except MissingModelError:
            continue  # it has no classes yet
        types = {get_entity_type(label) for label in judge.settings.label_map}
        reporter.register_dataset(dataset, _list_suggestible_labels(judge), given_types=types)
        reporter.set_thresholds(dataset, threshold_report(judge, snapshot))


def _list_suggestible_labels(judge: Judge) -> Sequence[str]:
    """The labels that a flag may suggest, as the dataset names them."""
    if judge.label_writer.is_identity:
        return judge.classes
    return [*(name for name in judge.classes if name == OUTSIDE), *(f"B-{name}" for name in judge.label_writer.types)]


def finish_report(report: BatchReport, batch: RecordBatch, datasets: DatasetRegistry, snapshot: StateSnapshot) -> None:
    """Adds what is known once a batch is committed; `snapshot` includes what was learned from it."""
    now = time.time()
    report.latencies = [
        max(0.0, now - record.timestamp_ms / 1000)  # the producer's clock may be ahead of ours
        for records in batch.records.values()
        for record in records
        if record.timestamp_ms
    ]
    for dataset in {sentence.dataset for sentence in report.sentences}:
        with suppress(MissingModelError):  # sentences with probabilities need no model; or it has just gone
            judge = datasets.get_judge(dataset)
            report.threshold_reports[dataset] = threshold_report(judge, snapshot)
            flags = snapshot.get_arrivals(dataset).total.flags.get(judge.stats_key, NO_FLAGS)
            report.misfits[dataset] = find_misfit(flags, is_trained=judge.is_trained)


def threshold_report(judge: Judge, snapshot: StateSnapshot) -> ThresholdReport:
    stats = snapshot.get_stats(judge)
    words = stats.get_total().counts
    return ThresholdReport(judge.build_threshold_set(stats).by_class, dict(zip(judge.classes, words, strict=True)))
