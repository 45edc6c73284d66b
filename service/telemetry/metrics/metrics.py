"""All metrics in one table. Only `Telemetry` (recorder.py) and its `ReviewMetrics` update them.

Cardinality is bounded: the first datasets have their own label value, the rest share `(other)`; confusions are pairs of
entity types, up to a limit; annotators need a setting; routes are patterns. No label is a sentence, a word or free text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from service.telemetry.metrics.bulk_histogram import BulkHistogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

NAMESPACE = "labelwatch"
DELIVERY_OUTCOMES = ("delivered", "retried", "failed")

SCORE_BUCKETS = (
    *(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0),
)
"""Dense near 0, where the label errors are."""
STAGE_SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
REQUEST_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
RECORD_SECONDS_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400)
BATCH_SEQUENCES_BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 64)

STAGES = {
    "worker": ("decode", "tokenize", "inference", "judge", "commit"),
    "api": ("queue", "tokenize", "inference", "judge"),
}
DEAD_LETTER_STAGES = ("decode", "validate", "labels", "too_long", "inference")
SUSPECT_KINDS = ("missed", "spurious", "type", "boundary")
REVIEW_STATES = ("open", "adjudication", "decided", "closed")
VERDICTS = ("error", "ok", "unsure")
STATUS_CLASSES = ("2xx", "3xx", "4xx", "5xx")
OVERLOAD_REASONS = ("queue_full", "draining", "streams_full", "bodies_full")
WEBHOOK_PLATFORMS = ("label-studio", "argilla")
WEBHOOK_OUTCOMES = ("taken", "ignored", "repeated", "late", "refused")
TRAINING_RESULTS = ("used", "not_used", "refused", "failed", "stopped")
TRAINING_SECONDS_BUCKETS = (5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
DEGRADED_CONDITIONS = ("broker", "disk", "log", "model_fit", "review", "state", "stream", "waiting")
ESTIMATE_BOUNDS = ("estimate", "low", "high")


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=NAMESPACE, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=NAMESPACE, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, namespace=NAMESPACE, registry=registry, buckets=buckets)

        def bulk_histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> BulkHistogram:
            return BulkHistogram(f"{NAMESPACE}_{name}", text, buckets, labels, registry=registry)

        # -- the stream ----------------------------------------------------------------------------------------------
        self.records = counter("records", "Records read and committed by the worker")
        self.committed_batches = counter("committed_batches", "Batches committed by the worker")
        self.commit_refused = counter("commit_refused", "Batches that the log refused to commit; they were read again")
        self.records_lost = counter("records_lost", "Records that retention deleted before they were read")
        self.dead_letters = counter(
            "dead_letters", "Records that could not be assessed, by the stage that failed", "stage"
        )
        self.lag = gauge("lag_records", "Records behind the end of the input, by owned partition", "partition")
        self.paused_partitions = gauge("paused_partitions", "Owned partitions that wait for the model of a dataset")
        self.record_seconds = bulk_histogram(
            "record_seconds", "Seconds from a record's timestamp to the commit of its results", RECORD_SECONDS_BUCKETS
        )
        # -- label quality -------------------------------------------------------------------------------------------
        self.sentences = counter("assessed_sentences", "Sentences assessed by the worker", "dataset")
        self.words = counter("assessed_words", "Words of the sentences assessed by the worker", "dataset")
        self.flagged_sentences = counter("flagged_sentences", "Sentences sent to review as flagged", "dataset")
        self.confusions = counter(
            "confusions", "Flagged words by given and suggested type", "dataset", "given", "suggested"
        )
        self.suspects = counter("suspects", "Suspected entities by kind", "dataset", "kind")
        self.scores = bulk_histogram(
            "score", "Sentence scores by the dataset's method; low is bad", SCORE_BUCKETS, "dataset"
        )
        self.priorities = bulk_histogram(
            "priority", "Agreement-weighted sentence scores; low is bad", SCORE_BUCKETS, "dataset"
        )
        self.thresholds = gauge("class_threshold", "Current threshold of a class", "dataset", "class")
        self.class_words = gauge("class_words", "Words of the dataset behind a class threshold", "dataset", "class")
        self.annotator_sentences = counter(
            "annotator_sentences", "Assessed sentences by annotator", "dataset", "annotator"
        )
        self.annotator_flagged = counter("annotator_flagged", "Flagged sentences by annotator", "dataset", "annotator")
        self.model_misfit = gauge(
            "model_misfit", "1 if the model flags an implausible share of a dataset, else 0", "dataset"
        )
        self.waiting = gauge("waiting_sentences", "Sentences stored until their dataset has a model", "dataset")
        self.settings_refused = gauge("dataset_settings_refused", "Datasets whose newest settings are invalid")
        # -- the model -----------------------------------------------------------------------------------------------
        self.stage_seconds = bulk_histogram(
            "stage_seconds",
            "Seconds of one batch or request in a stage of processing",
            STAGE_SECONDS_BUCKETS,
            "role",
            "stage",
        )
        self.batch_sequences = bulk_histogram(
            "batch_sequences", "Sequences in one run of the model", BATCH_SEQUENCES_BUCKETS
        )
        self.tokens = counter("model_tokens", "Tokens run through the model, without padding")
        self.padded_tokens = counter("model_padded_tokens", "Tokens run through the model, with padding")
        self.model_info = gauge("model_info", "1 for each model in memory", "name", "fingerprint")
        self.build_info = gauge("build_info", "1 for the running version", "version")
        # -- the trainer ---------------------------------------------------------------------------------------------
        self.trainings = counter("trainings", "Trainings of the trainer by their result", "dataset", "result")
        self.training_seconds = histogram(
            "training_seconds", "Seconds of one training, whatever its result", TRAINING_SECONDS_BUCKETS
        )
        self.webhook_deliveries = counter(
            "webhook_deliveries", "Attempts to deliver a notification, by what became of it", "outcome"
        )
        for outcome in DELIVERY_OUTCOMES:
            self.webhook_deliveries.labels(outcome)
        self._create_review_metrics(gauge)
        # -- http ----------------------------------------------------------------------------------------------------
        self.http_requests = counter(
            "http_requests", "Requests by route, method and class of status", "route", "method", "status"
        )
        self.http_request_seconds = bulk_histogram(
            "http_request_seconds",
            "Seconds from the start of a request to the end of its response",
            REQUEST_SECONDS_BUCKETS,
            "route",
        )
        self.http_queue = gauge("http_queue_sentences", "Sentences waiting for the model")
        self.webhooks = counter(
            "webhook_events", "Webhook events of annotation platforms by outcome", "platform", "outcome"
        )
        self.overload = counter("overload", "Requests rejected because of overload or draining, by reason", "reason")
        # -- the process ---------------------------------------------------------------------------------------------
        self.ready = gauge("ready", "1 if a condition of readiness holds, else 0", "condition")
        self.degraded = gauge("degraded", "1 if a part of the service does not work now, else 0", "condition")
        self.log_lines_dropped = counter(
            "log_lines_dropped", "Log lines that were dropped because nobody reads standard error"
        )

    def _create_review_metrics(self, gauge: Callable[..., Gauge]) -> None:
        self.review_items = gauge("review_items", "Items of the review queue by state", "dataset", "state")
        self.decisions = gauge("decisions", "Reviewers' decisions in force", "dataset", "verdict")
        self.precision = gauge(
            "reviewer_precision",
            "Share of decided items that reviewers found to be errors",
            *("dataset", "given", "suggested", "method"),
        )
        self.precision_items = gauge(
            "reviewer_precision_items",
            "Decided items behind labelwatch_reviewer_precision",
            *("dataset", "given", "suggested", "method"),
        )
        self.recall = gauge(
            "recall_estimate",
            "Share of label errors that were flagged, estimated from the control sample",
            "dataset",
            "bound",
        )
        self.agreement = gauge(
            "reviewer_agreement",
            "Agreement of reviewers about items that several have decided: Cohen's kappa over words, F1 over exact spans",
            "dataset",
            "measure",
        )
        self.agreement_items = gauge(
            "reviewer_agreement_items",
            "Compared answers behind labelwatch_reviewer_agreement: an item counts once per pair of reviewers",
            "dataset",
        )
        self.annotator_f1 = gauge(
            "annotator_f1",
            "Estimated F1 of an annotator's spans against those of the dataset's model, with its 95 % interval",
            "dataset",
            "annotator",
            "bound",
        )
