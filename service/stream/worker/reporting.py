"""What a worker knows beside a batch's own numbers, told to whoever listens: datasets, thresholds, waiting times."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings
from service.labels import OUTSIDE, entity_type
from service.log.codec import ERRORS, header
from service.stream.state.snapshot import Account, Ledger
from service.telemetry.batch_report import Standard

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.datasets.registry import Datasets
    from service.judging.judge import Judge
    from service.log.protocol import Output, Polled
    from service.telemetry.batch_report import BatchReport, Reporter

log = logging.getLogger(__name__)

UNKNOWN = "(unknown)"
_NAME = re.compile(r"[a-z0-9._-]{1,64}")
TOLD = 500  # characters of a reason: the rest is in the dead letter
KINDS = 5  # told of one batch: datasets are the producers' to invent


def tell_dead_letters(letters: Iterable[Output]) -> None:
    """Each kind of a batch's dead letters once, with the first reason: who sent them was told that all is well."""
    kinds: dict[tuple[str, str], tuple[int, str]] = {}
    for letter in letters:
        ours = letter.headers[::-1]  # a producer may have sent such headers himself
        kind = header(ours, f"{ERRORS}.stage") or UNKNOWN, _dataset(letter.value)
        number, first = kinds.get(kind, (0, header(ours, f"{ERRORS}.exception.message") or ""))
        kinds[kind] = number + 1, first
    for (stage, dataset), (number, first) in list(kinds.items())[:KINDS]:
        shown = "".join(each if each.isprintable() else "\ufffd" for each in first[:TOLD])
        log.warning("dead letters: %d of stage %s, dataset %s; the first: %s", number, stage, dataset, shown)
    if len(kinds) > KINDS:
        log.warning("dead letters: %d more kinds, see `labelwatch dead-letters list`", len(kinds) - KINDS)


def _dataset(value: bytes | None) -> str:
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return UNKNOWN
    name = found.get("dataset", DatasetSettings().name) if isinstance(found, dict) else UNKNOWN
    return name if isinstance(name, str) and _NAME.fullmatch(name) else UNKNOWN


def introduce(reporter: Reporter, datasets: Datasets, ledger: Ledger) -> None:
    """Tells of the datasets that are set up or have statistics, so that their numbers can begin at 0."""
    reporter.settings_refused(len(datasets.refused))
    seen = {account.dataset for account in ledger.totals}
    for dataset in sorted({DatasetSettings().name, *seen, *datasets.names}):
        # One that only has statistics is not made a dataset by this: there may be as many as somebody sent once.
        judge = datasets.judge(dataset) if dataset in datasets else datasets.made(DatasetSettings(name=dataset))
        types = {entity_type(label) for label in judge.settings.label_map}
        reporter.know_dataset(dataset, _suggestible(judge), given_types=types)
        reporter.standard(dataset, standard(judge, ledger))


def _suggestible(judge: Judge) -> Sequence[str]:
    """Labels of all types that a flag may suggest, as the dataset calls them."""
    if judge.own.same:
        return judge.classes
    return [*(name for name in judge.classes if name == OUTSIDE), *(f"B-{name}" for name in judge.own.types)]


def complete(report: BatchReport, polled: Polled, datasets: Datasets, ledger: Ledger) -> None:
    """What is known of a batch once it is committed. `ledger`: with what was learned from it."""
    report.lap("commit")
    now = time.time()
    report.waited = [
        max(0.0, now - record.timestamp_ms / 1000)  # the producer's clock may be ahead of ours
        for records in polled.records.values()
        for record in records
        if record.timestamp_ms
    ]
    for dataset in {one.dataset for one in report.judged}:
        report.standards[dataset] = standard(datasets.judge(dataset), ledger)


def standard(judge: Judge, ledger: Ledger) -> Standard:
    stats = ledger.total(Account(judge.settings.name, judge.stats_key), judge.empty())
    words = stats.total(judge.settings.forget_after_days).counts
    return Standard(judge.yardstick(stats).named, dict(zip(judge.classes, words, strict=True)))
