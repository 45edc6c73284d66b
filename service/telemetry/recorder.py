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
from service.telemetry.bounded_labels import OTHER, OTHER_DATASETS, Annotators, Bounded
from service.telemetry.dataset_labels import DatasetLabels
from service.telemetry.metrics import (
    DEAD_LETTER_STAGES,
    DEGRADED,
    OVERLOADS,
    RECALL_BOUNDS,
    REVIEW_STATES,
    STAGES,
    STATUS_CLASSES,
    VERDICTS,
    WEBHOOK_OUTCOMES,
    WEBHOOK_PLATFORMS,
    Table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.contracts import Assessment
    from service.telemetry.batch_report import BatchReport, Judged, Standard

log = logging.getLogger(__name__)

MOST_DATASETS = 50
MOST_ROUTES = 100
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
NO_ROUTE = "none"


class Telemetry:
    """The metrics of one process, with a registry of their own. Safe to use from several threads.

    `annotators`: the names that may stand in metrics, with commas between; `*`: the first few that come.
    """

    def __init__(self, *, most_datasets: int = MOST_DATASETS, annotators: str = "") -> None:
        # A series more for each counter, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client leaves this one untyped
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.table = Table(self.registry)
        self._datasets = DatasetLabels(self.table, most=most_datasets)
        self._routes: Bounded[str] = Bounded(MOST_ROUTES)
        self._annotators = Annotators(annotators)
        self._hooks: list[Callable[[], None]] = []
        self._scraping = threading.Lock()
        # What each request moves: looking a label set up costs as much as counting. There are few of them.
        self._stage = cache(self.table.stage_seconds.labels)
        self._requests = cache(self.table.http_requests.labels)
        self._durations = cache(self.table.http_seconds.labels)
        self._prepare()

    def _prepare(self) -> None:
        table = self.table
        table.build.labels(__version__).set(1)
        for stage in DEAD_LETTER_STAGES:
            table.dead_letters.labels(stage)
        for role, stages in STAGES.items():
            for stage in stages:
                table.stage_seconds.labels(role, stage)
        for reason in OVERLOADS:
            table.overload.labels(reason)
        for platform in WEBHOOK_PLATFORMS:
            for outcome in WEBHOOK_OUTCOMES:
                table.webhooks.labels(platform, outcome)

    # -- scraping --------------------------------------------------------------------------------------------------

    def on_scrape(self, hook: Callable[[], None]) -> None:
        """Called before every exposition, to set what is read rather than counted."""
        self._hooks.append(hook)

    def exposition(self) -> tuple[bytes, str]:
        """The metrics in the text format, and its content type."""
        with self._scraping:
            for hook in self._hooks:
                try:
                    hook()
                except Exception:  # the other metrics are worth more than a stack of empty scrapes
                    log.exception("a part of the metrics could not be read")
            return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    # -- what there is ---------------------------------------------------------------------------------------------

    def know_model(self, name: str, fingerprint: str) -> None:
        self.table.model.clear()
        self.table.model.labels(name, fingerprint[:12]).set(1)

    def know_dataset(self, dataset: str, classes: Sequence[str], *, given_types: Iterable[str] = ()) -> None:
        """Makes a dataset's label sets at 0. `given_types`: how the dataset itself calls types, beside the model's."""
        self._datasets.know(dataset, classes, given_types)

    # -- the worker ------------------------------------------------------------------------------------------------

    def committed(self, report: BatchReport) -> None:
        table = self.table
        table.batches.inc()
        table.records.inc(report.records)
        for stage, number in report.dead_letters.items():
            table.dead_letters.labels(stage).inc(number)
        table.record_seconds.observe_all(report.waited)
        self.stages("worker", report.seconds)
        self._count(report.judged)
        self._count_doubts(report.doubted)
        for dataset, standard in report.standards.items():
            self.standard(dataset, standard)

    def _count(self, judged: Iterable[Judged]) -> None:
        """Added up first: one call of the client a sentence and metric would cost as much as judging it."""
        people: Counter[tuple[str, str]] = Counter()
        flagged: Counter[tuple[str, str]] = Counter()
        words: Counter[str] = Counter()
        scores: dict[str, list[float]] = {}
        priorities: dict[str, list[float]] = {}
        for dataset, annotator, n_words, score, priority, reason in judged:
            label = self._datasets.label(dataset)
            who = label, self._annotators.label(annotator)
            people[who] += 1
            words[label] += n_words
            if score is not None:
                scores.setdefault(label, []).append(score)
            if priority is not None:
                priorities.setdefault(label, []).append(priority)
            if reason == "flagged":
                flagged[who] += 1
        table = self.table
        for who, number in people.items():
            table.sentences.labels(who[0]).inc(number)
            table.annotated.labels(*who).inc(number)
        for who, number in flagged.items():
            table.flagged.labels(who[0]).inc(number)
            table.annotator_flagged.labels(*who).inc(number)
        for label, number in words.items():
            table.words.labels(label).inc(number)
        for metric, found in ((table.scores, scores), (table.priorities, priorities)):
            for label, values in found.items():
                metric.observe_all(values, label)

    def _count_doubts(self, doubted: Iterable[Assessment]) -> None:
        for one in doubted:
            label = self._datasets.label(one.dataset)
            for flag in one.flags:
                self.table.confusions.labels(*self._datasets.confusion(label, flag.given, flag.suggested)).inc()
            for suspect in one.suspects:
                self.table.suspects.labels(label, suspect.kind).inc()

    def standard(self, dataset: str, standard: Standard) -> None:
        """A dataset's thresholds, and the words behind them."""
        self._datasets.judged_by(dataset, standard)

    def settings_refused(self, datasets: int) -> None:
        self.table.settings_refused.set(datasets)

    def refused(self) -> None:
        self.table.refused.inc()

    def lost(self, records: int) -> None:
        self.table.lost.inc(records)

    def lag(self, by_partition: Mapping[int, int]) -> None:
        """Of the partitions that are ours now; those that went are no longer told of."""
        self.table.lag.clear()
        for partition, records in by_partition.items():
            self.table.lag.labels(str(partition)).set(records)

    # -- the model -------------------------------------------------------------------------------------------------

    def stages(self, role: str, seconds: Mapping[str, float]) -> None:
        """Where the time of one batch (worker) or one request (api) went."""
        for stage, took in seconds.items():
            self._stage(role, stage).observe(took)

    def model_run(self, sequences: int, tokens: int, padded: int) -> None:
        """One run of the graph: the tokens of its sequences, and what it worked on with padding."""
        self.table.batch_sequences.observe(sequences)
        self.table.tokens.inc(tokens)
        self.table.padded_tokens.inc(padded)

    # -- review ----------------------------------------------------------------------------------------------------

    def review(self, dataset: str, *, states: Mapping[str, int], verdicts: Mapping[str, int]) -> None:
        """The queue of a dataset as it stands."""
        label = self._datasets.label(dataset)
        if label == OTHER_DATASETS:
            return
        for state in REVIEW_STATES:
            self.table.review_items.labels(label, state).set(states.get(state, 0))
        for verdict in VERDICTS:
            self.table.decisions.labels(label, verdict).set(verdicts.get(verdict, 0))

    def precision(self, found: Mapping[tuple[str, str, str, str], tuple[int, int]]) -> None:
        """(dataset, given type, suggested type, method) → (errors, decided items)."""
        sums: Counter[tuple[str, str, str, str]] = Counter()
        items: Counter[tuple[str, str, str, str]] = Counter()
        for (dataset, given, suggested, method), (errors, decided) in found.items():
            place = *self._datasets.confusion(self._datasets.label(dataset), given, suggested), method
            sums[place] += errors
            items[place] += decided
        self.table.precision.clear()
        self.table.precision_items.clear()
        for place, decided in items.items():
            if decided:
                self.table.precision.labels(*place).set(sums[place] / decided)
                self.table.precision_items.labels(*place).set(decided)

    def recall(self, dataset: str, *, estimate: float | None, low: float | None, high: float | None) -> None:
        label = self._datasets.label(dataset)
        if label == OTHER_DATASETS:
            return
        for bound, value in zip(RECALL_BOUNDS, (estimate, low, high), strict=True):
            if value is not None:
                self.table.recall.labels(label, bound).set(value)
            else:  # nothing can be said any more, as when decisions were withdrawn
                self.table.recall.remove(label, bound)

    # -- http ------------------------------------------------------------------------------------------------------

    def know_routes(self, routes: Iterable[tuple[str, str]]) -> None:
        """(route pattern, method) of everything that can be asked for."""
        for route, method in routes:
            if route in self._routes:
                self.table.http_seconds.labels(route)
                for status in STATUS_CLASSES:
                    self.table.http_requests.labels(route, method, status)

    def http_request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Counts one answered request. `route` is the path's pattern, never the path itself."""
        label = (route or NO_ROUTE) if (route or NO_ROUTE) in self._routes else OTHER
        verb = method if method in METHODS else OTHER
        self._requests(label, verb, f"{status // 100}xx").inc()
        self._durations(label).observe(seconds)

    def overloaded(self, reason: str = "queue_full") -> None:
        """A request turned away: `queue_full`, `draining` or `streams_full`."""
        self.table.overload.labels(reason if reason in OVERLOADS else OTHER).inc()

    def webhook(self, platform: str, outcome: str, *, stage: str | None = None) -> None:
        """An event of a platform, by what became of it; `stage` where it became a dead letter."""
        self.table.webhooks.labels(platform, outcome).inc()
        if stage is not None:
            self.table.dead_letters.labels(stage).inc()

    def watch_queue(self, waiting: Callable[[], int]) -> None:
        """Asked at each scrape for the number of sentences that wait for the model."""
        self.table.http_queue.set_function(waiting)

    # -- readiness -------------------------------------------------------------------------------------------------

    def watch(
        self, conditions: Callable[[], Mapping[str, str]], degraded: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """Asked at each scrape why the service is not ready, by name (empty: it holds), and what it does without."""
        asked: set[str] = set()
        missed = set(DEGRADED)

        def read() -> None:
            found = conditions()
            asked.update(found)
            for name in asked:  # one that is no longer a condition holds
                self.table.ready.labels(name).set(0 if found.get(name) else 1)
            now = {name for name, why in degraded().items() if why}
            missed.update(now)
            for name in missed:
                self.table.degraded.labels(name).set(1 if name in now else 0)

        self.on_scrape(read)
