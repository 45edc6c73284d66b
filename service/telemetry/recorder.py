"""The metrics' one writer: events of the service in, numbers out.

A counter that is first seen at 1 shows no increase, so every label set that can be foreseen is made at 0.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from service import __version__
from service.telemetry.bounded_labels import OTHER, OTHER_DATASETS, AnnotatorLabels, LabelLimit
from service.telemetry.dataset_labels import DatasetLabels
from service.telemetry.metrics import (
    DEAD_LETTER_STAGES,
    DEGRADED_CONDITIONS,
    OVERLOAD_REASONS,
    RECALL_BOUNDS,
    REVIEW_STATES,
    STAGES,
    STATUS_CLASSES,
    VERDICTS,
    WEBHOOK_OUTCOMES,
    WEBHOOK_PLATFORMS,
    Metrics,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.contracts import Assessment
    from service.telemetry.batch_report import BatchReport, SentenceReport, ThresholdReport

logger = logging.getLogger(__name__)

MAX_DATASET_LABELS = 50
MAX_ROUTE_LABELS = 100
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
NO_ROUTE = "none"


class Telemetry:
    """The metrics of one process, with a registry of their own. Safe to use from several threads.

    `annotators`: the names that may stand in metrics, with commas between; `*`: the first few that come.
    """

    def __init__(self, *, max_datasets: int = MAX_DATASET_LABELS, annotators: str = "") -> None:
        # A series more for each counter, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client leaves this one untyped
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.metrics = Metrics(self.registry)
        self._datasets = DatasetLabels(self.metrics, max_datasets=max_datasets)
        self._routes: LabelLimit[str] = LabelLimit(MAX_ROUTE_LABELS)
        self._annotators = AnnotatorLabels(annotators)
        self._hooks: list[Callable[[], None]] = []
        self._scrape_lock = threading.Lock()
        # What each request moves: looking a label set up costs as much as counting. There are few of them.
        self._stage_histogram = cache(self.metrics.stage_seconds.labels)
        self._request_counter = cache(self.metrics.http_requests.labels)
        self._request_histogram = cache(self.metrics.http_request_seconds.labels)
        self._init_labels()

    def _init_labels(self) -> None:
        table = self.metrics
        table.build_info.labels(__version__).set(1)
        for stage in DEAD_LETTER_STAGES:
            table.dead_letters.labels(stage)
        for role, stages in STAGES.items():
            for stage in stages:
                table.stage_seconds.labels(role, stage)
        for reason in OVERLOAD_REASONS:
            table.overload.labels(reason)
        for platform in WEBHOOK_PLATFORMS:
            for outcome in WEBHOOK_OUTCOMES:
                table.webhooks.labels(platform, outcome)

    # -- scraping --------------------------------------------------------------------------------------------------

    def on_scrape(self, hook: Callable[[], None]) -> None:
        """Called before every exposition, to set what is read rather than counted."""
        self._hooks.append(hook)

    def render_exposition(self) -> tuple[bytes, str]:
        """The metrics in the text format, and its content type."""
        with self._scrape_lock:
            for hook in self._hooks:
                try:
                    hook()
                except Exception:  # the other metrics are worth more than a stack of empty scrapes
                    logger.exception("a part of the metrics could not be read")
            return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    # -- what there is ---------------------------------------------------------------------------------------------

    def set_model(self, name: str, fingerprint: str) -> None:
        self.metrics.model_info.clear()
        self.metrics.model_info.labels(name, fingerprint[:12]).set(1)

    def register_dataset(self, dataset: str, classes: Sequence[str], *, given_types: Iterable[str] = ()) -> None:
        """Makes a dataset's label sets at 0. `given_types`: how the dataset itself calls types, beside the model's."""
        self._datasets.register(dataset, classes, given_types)

    # -- the worker ------------------------------------------------------------------------------------------------

    def observe_batch(self, report: BatchReport) -> None:
        table = self.metrics
        table.committed_batches.inc()
        table.records.inc(report.records)
        for stage, number in report.dead_letters.items():
            table.dead_letters.labels(stage).inc(number)
        table.record_seconds.observe_all(report.latencies)
        self.observe_stages("worker", report.stage_seconds)
        self._count_sentences(report.sentences)
        self._count_flags_and_suspects(report.flagged)
        for dataset, standard in report.threshold_reports.items():
            self.set_thresholds(dataset, standard)

    def _count_sentences(self, sentences: Iterable[SentenceReport]) -> None:
        """Added up first: one call of the client a sentence and metric would cost as much as judging it."""
        people: Counter[tuple[str, str]] = Counter()
        flagged: Counter[tuple[str, str]] = Counter()
        words: Counter[str] = Counter()
        scores: dict[str, list[float]] = {}
        priorities: dict[str, list[float]] = {}
        for dataset, annotator, n_words, score, priority, reason in sentences:
            label = self._datasets.to_label(dataset)
            who = label, self._annotators.to_label(annotator)
            people[who] += 1
            words[label] += n_words
            if score is not None:
                scores.setdefault(label, []).append(score)
            if priority is not None:
                priorities.setdefault(label, []).append(priority)
            if reason == "flagged":
                flagged[who] += 1
        table = self.metrics
        for who, number in people.items():
            table.sentences.labels(who[0]).inc(number)
            table.annotator_sentences.labels(*who).inc(number)
        for who, number in flagged.items():
            table.flagged_sentences.labels(who[0]).inc(number)
            table.annotator_flagged.labels(*who).inc(number)
        for label, number in words.items():
            table.words.labels(label).inc(number)
        for metric, found in ((table.scores, scores), (table.priorities, priorities)):
            for label, values in found.items():
                metric.observe_all(values, label)

    def _count_flags_and_suspects(self, assessments: Iterable[Assessment]) -> None:
        for one in assessments:
            label = self._datasets.to_label(one.dataset)
            for flag in one.flags:
                self.metrics.confusions.labels(
                    *self._datasets.to_confusion_labels(label, flag.given, flag.suggested)
                ).inc()
            for suspect in one.suspects:
                self.metrics.suspects.labels(label, suspect.kind).inc()

    def set_thresholds(self, dataset: str, report: ThresholdReport) -> None:
        """A dataset's thresholds, and the words behind them."""
        self._datasets.set_thresholds(dataset, report)

    def set_refused_settings(self, datasets: int) -> None:
        self.metrics.settings_refused.set(datasets)

    def count_refused_commit(self) -> None:
        self.metrics.commit_refused.inc()

    def count_lost_records(self, records: int) -> None:
        self.metrics.records_lost.inc(records)

    def set_lag(self, by_partition: Mapping[int, int]) -> None:
        """Of the partitions that are ours now; those that went are no longer told of."""
        self.metrics.lag.clear()
        for partition, records in by_partition.items():
            self.metrics.lag.labels(str(partition)).set(records)

    # -- the model -------------------------------------------------------------------------------------------------

    def observe_stages(self, role: str, seconds: Mapping[str, float]) -> None:
        """Where the time of one batch (worker) or one request (api) went."""
        for stage, took in seconds.items():
            self._stage_histogram(role, stage).observe(took)

    def observe_model_run(self, sequences: int, tokens: int, padded: int) -> None:
        """One run of the graph: the tokens of its sequences, and what it worked on with padding."""
        self.metrics.batch_sequences.observe(sequences)
        self.metrics.tokens.inc(tokens)
        self.metrics.padded_tokens.inc(padded)

    # -- review ----------------------------------------------------------------------------------------------------

    def set_review_counts(self, dataset: str, *, states: Mapping[str, int], verdicts: Mapping[str, int]) -> None:
        """The queue of a dataset as it stands."""
        label = self._datasets.to_label(dataset)
        if label == OTHER_DATASETS:
            return
        for state in REVIEW_STATES:
            self.metrics.review_items.labels(label, state).set(states.get(state, 0))
        for verdict in VERDICTS:
            self.metrics.decisions.labels(label, verdict).set(verdicts.get(verdict, 0))

    def set_precision(self, outcomes: Mapping[tuple[str, str, str, str], tuple[int, int]]) -> None:
        """(dataset, given type, suggested type, method) → (errors, decided items)."""
        sums: Counter[tuple[str, str, str, str]] = Counter()
        items: Counter[tuple[str, str, str, str]] = Counter()
        for (dataset, given, suggested, method), (errors, decided) in outcomes.items():
            place = *self._datasets.to_confusion_labels(self._datasets.to_label(dataset), given, suggested), method
            sums[place] += errors
            items[place] += decided
        self.metrics.precision.clear()
        self.metrics.precision_items.clear()
        for place, decided in items.items():
            if decided:
                self.metrics.precision.labels(*place).set(sums[place] / decided)
                self.metrics.precision_items.labels(*place).set(decided)

    def set_recall(self, dataset: str, *, estimate: float | None, low: float | None, high: float | None) -> None:
        label = self._datasets.to_label(dataset)
        if label == OTHER_DATASETS:
            return
        for bound, value in zip(RECALL_BOUNDS, (estimate, low, high), strict=True):
            if value is not None:
                self.metrics.recall.labels(label, bound).set(value)
            else:  # nothing can be said any more, as when decisions were withdrawn
                self.metrics.recall.remove(label, bound)

    # -- http ------------------------------------------------------------------------------------------------------

    def register_routes(self, routes: Iterable[tuple[str, str]]) -> None:
        """(route pattern, method) of everything that can be asked for."""
        for route, method in routes:
            if route in self._routes:
                self.metrics.http_request_seconds.labels(route)
                for status in STATUS_CLASSES:
                    self.metrics.http_requests.labels(route, method, status)

    def observe_http_request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Counts one answered request. `route` is the path's pattern, never the path itself."""
        label = (route or NO_ROUTE) if (route or NO_ROUTE) in self._routes else OTHER
        verb = method if method in METHODS else OTHER
        self._request_counter(label, verb, f"{status // 100}xx").inc()
        self._request_histogram(label).observe(seconds)

    def count_overload(self, reason: str = "queue_full") -> None:
        """A request turned away: `queue_full`, `draining` or `streams_full`."""
        self.metrics.overload.labels(reason if reason in OVERLOAD_REASONS else OTHER).inc()

    def count_webhook(self, platform: str, outcome: str, *, stage: str | None = None) -> None:
        """An event of a platform, by what became of it; `stage` where it became a dead letter."""
        self.metrics.webhooks.labels(platform, outcome).inc()
        if stage is not None:
            self.metrics.dead_letters.labels(stage).inc()

    def watch_queue(self, waiting: Callable[[], int]) -> None:
        """Asked at each scrape for the number of sentences that wait for the model."""
        self.metrics.http_queue.set_function(waiting)

    # -- readiness -------------------------------------------------------------------------------------------------

    def watch_readiness(
        self, conditions: Callable[[], Mapping[str, str]], degraded: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """Asked at each scrape why the service is not ready, by name (empty: it holds), and what it does without."""
        asked: set[str] = set()
        missed = set(DEGRADED_CONDITIONS)

        def read() -> None:
            found = conditions()
            asked.update(found)
            for name in asked:  # one that is no longer a condition holds
                self.metrics.ready.labels(name).set(0 if found.get(name) else 1)
            now = {name for name, why in degraded().items() if why}
            missed.update(now)
            for name in missed:
                self.metrics.degraded.labels(name).set(1 if name in now else 0)

        self.on_scrape(read)
