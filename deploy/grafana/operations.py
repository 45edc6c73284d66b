"""The dashboard for operators of the service."""

from __future__ import annotations

from deploy.grafana.panels import (
    BAD,
    GOOD,
    WARN,
    Json,
    Query,
    bar_gauge,
    heatmap,
    stat,
    state_timeline,
    table,
    time_series,
)

INSTANCE_FILTER = '{instance=~"$instance"}'
QUANTILES = (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))
WORKER_FILTER = '{instance=~"$instance", role="worker"}'


def filter_instance_and(labels: str) -> str:
    return f'{{instance=~"$instance", {labels}}}'


def build_quantile_queries(metric: str, labels: str = "", *, by: str = "") -> tuple[Query, ...]:
    where = filter_instance_and(labels) if labels else INSTANCE_FILTER
    grouping = f"le, {by}" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({quantile}, sum by ({grouping}) (rate({metric}_bucket{where}[$__rate_interval])))",
            f"{{{{{by}}}}} {name}" if by else name,
        )
        for quantile, name in QUANTILES
    )


OVERVIEW = (
    stat(
        "Ready",
        "Whether every condition of every process is met.",
        f"min(labelwatch_ready{INSTANCE_FILTER})",
        good_from=1,
        mappings=({"type": "value", "options": {"0": {"text": "no", "index": 0}, "1": {"text": "yes", "index": 1}}},),
    ),
    stat(
        "Lag",
        "Records not read yet, over all partitions.",
        f"sum(labelwatch_lag_records{INSTANCE_FILTER})",
        decimals=0,
    ),
    stat(
        "Records per second",
        "Read and committed, over the last 5 minutes.",
        f"sum(rate(labelwatch_records_total{INSTANCE_FILTER}[5m]))",
        unit="cps",
        decimals=1,
    ),
    stat(
        "Dead letters",
        "In the time range shown.",
        f"sum(increase(labelwatch_dead_letters_total{INSTANCE_FILTER}[$__range]))",
        bad_from=1,
        decimals=0,
    ),
    stat(
        "Records lost",
        "Deleted by retention before a worker read them, in the time range shown.",
        f"sum(increase(labelwatch_records_lost_total{INSTANCE_FILTER}[$__range]))",
        bad_from=1,
        decimals=0,
    ),
    stat(
        "Rejected requests",
        "Requests answered with 429 or 503 because of overload, in the time range shown.",
        f"sum(increase(labelwatch_overload_total{INSTANCE_FILTER}[$__range]))",
        bad_from=1,
        decimals=0,
    ),
)

STREAM = (
    time_series(
        "Lag",
        "Records behind the end of the input, by partition.",
        Query(f"sum by (partition) (labelwatch_lag_records{INSTANCE_FILTER})", "partition {{partition}}"),
        stacked=True,
    ),
    time_series(
        "Rate",
        "Records read and committed, and the words in them.",
        Query(
            f"sum by (instance) (rate(labelwatch_records_total{INSTANCE_FILTER}[$__rate_interval]))",
            "records, {{instance}}",
        ),
        Query(f"sum(rate(labelwatch_assessed_words_total{INSTANCE_FILTER}[$__rate_interval]))", "words"),
        unit="cps",
    ),
    time_series(
        "From the log to the commit",
        "Age of a record when its assessment is committed: the delay before a reviewer sees it.",
        *build_quantile_queries("labelwatch_record_seconds"),
        unit="s",
    ),
    time_series(
        "Where a worker's time goes",
        "Seconds of work per second, by stage. The sum shows how busy the workers are: 1 is one worker that never waits.",
        Query(f"sum by (stage) (rate(labelwatch_stage_seconds_sum{WORKER_FILTER}[$__rate_interval]))", "{{stage}}"),
        unit="percentunit",
        stacked=True,
    ),
    time_series(
        "Dead letters by reason",
        "Records per minute that could not be assessed, by the stage that failed.",
        Query(
            f"60 * sum by (stage) (rate(labelwatch_dead_letters_total{INSTANCE_FILTER}[$__rate_interval]))", "{{stage}}"
        ),
        unit="cpm",
        stacked=True,
    ),
    time_series(
        "Batches",
        "Committed, and refused by the log. Refused batches are read again.",
        Query(f"sum(rate(labelwatch_committed_batches_total{INSTANCE_FILTER}[$__rate_interval]))", "committed"),
        Query(f"sum(rate(labelwatch_commit_refused_total{INSTANCE_FILTER}[$__rate_interval]))", "refused"),
        unit="cps",
    ),
)

API = (
    time_series(
        "Requests",
        "By route and status class.",
        Query(
            f"sum by (route, status) (rate(labelwatch_http_requests_total{INSTANCE_FILTER}[$__rate_interval])) > 0",
            "{{route}} {{status}}",
        ),
        unit="reqps",
        stacked=True,
    ),
    time_series(
        "Response time",
        "Of all routes except the probes and the event stream, which never ends.",
        *build_quantile_queries("labelwatch_http_request_seconds", 'route!~"/metrics|/healthz|/readyz|/v1/events"'),
        unit="s",
    ),
    time_series(
        "Scoring time by stage",
        "Of a scoring request: in the queue, in the tokenizer, in the model.",
        *build_quantile_queries("labelwatch_stage_seconds", 'role="api"', by="stage"),
        unit="s",
    ),
    time_series(
        "Slowest routes",
        "95th percentile by route.",
        Query(
            f"histogram_quantile(0.95, sum by (le, route) (rate(labelwatch_http_request_seconds_bucket{INSTANCE_FILTER}[$__rate_interval])))",
            "{{route}}",
        ),
        unit="s",
    ),
    time_series(
        "Waiting for the model",
        "Sentences in the queue. When it is full, further requests are answered with 429.",
        Query(f"sum by (instance) (labelwatch_http_queue_sentences{INSTANCE_FILTER})", "{{instance}}"),
    ),
    time_series(
        "Rejected requests",
        "Requests per second that were rejected, by reason.",
        Query(f"sum by (reason) (rate(labelwatch_overload_total{INSTANCE_FILTER}[$__rate_interval]))", "{{reason}}"),
        unit="reqps",
    ),
)

MODEL = (
    heatmap(
        "Batch size",
        "Sequences in one run of the model. Small batches take more time per sentence.",
        f"sum by (le) (increase(labelwatch_batch_sequences_bucket{INSTANCE_FILTER}[$__rate_interval]))",
    ),
    time_series(
        "Padding",
        "Share of the model's work that is spent on padding.",
        Query(
            f"1 - sum(rate(labelwatch_model_tokens_total{INSTANCE_FILTER}[$__rate_interval]))"
            f" / sum(rate(labelwatch_model_padded_tokens_total{INSTANCE_FILTER}[$__rate_interval]))",
            "waste",
        ),
        unit="percentunit",
        max_value=1,
        height=9,
    ),
    time_series(
        "Tokens per second",
        "Processed by the model, without padding.",
        Query(
            f"sum by (instance) (rate(labelwatch_model_tokens_total{INSTANCE_FILTER}[$__rate_interval]))",
            "{{instance}}",
        ),
        unit="cps",
        stacked=True,
    ),
    time_series(
        "One batch in the model",
        "Time of a worker's batch in tokenizer, model and judge.",
        *build_quantile_queries(
            "labelwatch_stage_seconds", 'role="worker", stage=~"tokenize|inference|judge"', by="stage"
        ),
        unit="s",
    ),
    table(
        "Model and version",
        "Expect one fingerprint: two mean that a change of the model is not finished.",
        {"Processes": Query(f"count by (name, fingerprint) (labelwatch_model_info{INSTANCE_FILTER})")},
        by={"name": "Model", "fingerprint": "Fingerprint"},
    ),
    table(
        "Version",
        "The version of each instance.",
        {"Runs": Query(f"max by (instance, version) (labelwatch_build_info{INSTANCE_FILTER})")},
        by={"instance": "Instance", "version": "Version"},
        hidden=("Value",),
    ),
)

PROCESS = (
    state_timeline(
        "Readiness by condition",
        "/readyz gives the reason if a condition is not met.",
        Query(f"min by (instance, condition) (labelwatch_ready{INSTANCE_FILTER})", "{{instance}} {{condition}}"),
        texts={1: ("met", GOOD), 0: ("not met", BAD)},
    ),
    state_timeline(
        "Degraded",
        "Dependencies that a process works without.",
        Query(f"max by (instance, condition) (labelwatch_degraded{INSTANCE_FILTER})", "{{instance}} {{condition}}"),
        texts={0: ("available", GOOD), 1: ("missing", WARN)},
    ),
    time_series(
        "CPU",
        "Cores in use.",
        Query(
            'rate(process_cpu_seconds_total{job="labelwatch", instance=~"$instance"}[$__rate_interval])', "{{instance}}"
        ),
        unit="none",
    ),
    time_series(
        "Memory",
        "Resident memory.",
        Query('process_resident_memory_bytes{job="labelwatch", instance=~"$instance"}', "{{instance}}"),
        unit="bytes",
    ),
    bar_gauge(
        "Refused dataset settings",
        "Datasets whose newest settings can't be used: workers continue with the previous ones. Their log gives the reason.",
        f"max by (instance) (labelwatch_dataset_settings_refused{INSTANCE_FILTER})",
        "{{instance}}",
        width=24,
    ),
)

DASHBOARD: Json = {
    "file": "operations",
    "uid": "labelwatch-operations",
    "title": "labelwatch: operations",
    "description": "Whether the service keeps up, where its time goes, and which dependencies are missing.",
    "range": "now-6h",
    "variables": {"instance": "label_values(labelwatch_build_info, instance)"},
    "rows": {
        "Overview": OVERVIEW,
        "Stream": STREAM,
        "API": API,
        "Model": MODEL,
        "Processes": PROCESS,
    },
}
