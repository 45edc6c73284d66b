"""The dashboard for annotation teams: label quality."""

from __future__ import annotations

from deploy.grafana.panels import BAD, GOOD, Json, Query, bar_gauge, heatmap, stat, state_timeline, table, time_series

DATASET_FILTER = '{dataset=~"$dataset"}'
CONFUSION_LEGEND = "{{given}} → {{suggested}}"

OVERVIEW = (
    stat(
        "Sentences assessed",
        "In the time range shown.",
        f"sum(increase(labelwatch_assessed_sentences_total{DATASET_FILTER}[$__range]))",
        decimals=0,
    ),
    stat(
        "Flagged",
        "Share of the assessed sentences that were sent to review because a label is doubtful.",
        f"sum(increase(labelwatch_flagged_sentences_total{DATASET_FILTER}[$__range]))"
        f" / sum(increase(labelwatch_assessed_sentences_total{DATASET_FILTER}[$__range]))",
        unit="percentunit",
        decimals=1,
    ),
    stat(
        "Waiting for review",
        "Open items of the queue now.",
        'sum(max by (dataset) (labelwatch_review_items{dataset=~"$dataset", state="open"}))',
        decimals=0,
    ),
    stat(
        "Decided",
        "Items that reviewers have decided.",
        'sum(max by (dataset) (labelwatch_review_items{dataset=~"$dataset", state="decided"}))',
        decimals=0,
    ),
    stat(
        "Precision",
        "Of the decided items, the share that reviewers found to be errors.",
        f"sum(max by (dataset, given, suggested, method) (labelwatch_reviewer_precision{DATASET_FILTER} * labelwatch_reviewer_precision_items{DATASET_FILTER}))"
        f" / sum(max by (dataset, given, suggested, method) (labelwatch_reviewer_precision_items{DATASET_FILTER}))",
        unit="percentunit",
        decimals=0,
    ),
    stat(
        "Recall (estimate)",
        "Share of all errors that were flagged, estimated from the control sample. The lowest of the datasets shown. "
        "Needs a control share and decisions about its items.",
        'min(labelwatch_recall_estimate{dataset=~"$dataset", bound="estimate"})',
        unit="percentunit",
        decimals=0,
    ),
)

FLAGS = (
    time_series(
        "Share of flagged sentences",
        "Of the sentences assessed. A jump means new annotators, new guidelines, another kind of text, or a label map "
        "that no longer fits.",
        Query(
            f"sum by (dataset) (rate(labelwatch_flagged_sentences_total{DATASET_FILTER}[$__rate_interval]))"
            f" / sum by (dataset) (rate(labelwatch_assessed_sentences_total{DATASET_FILTER}[$__rate_interval]))",
            "{{dataset}}",
        ),
        unit="percentunit",
    ),
    time_series(
        "Sentences per second",
        "Assessed by the workers, by dataset.",
        Query(
            f"sum by (dataset) (rate(labelwatch_assessed_sentences_total{DATASET_FILTER}[$__rate_interval]))",
            "{{dataset}}",
        ),
        unit="cps",
        stacked=True,
    ),
    heatmap(
        "Scores",
        "Distribution of the sentence scores. Low is bad: errors gather in the lowest rows.",
        f"sum by (le) (increase(labelwatch_score_bucket{DATASET_FILTER}[$__rate_interval]))",
    ),
    heatmap(
        "Priorities",
        "Distribution of the priorities, which order the queue. Low is bad.",
        f"sum by (le) (increase(labelwatch_priority_bucket{DATASET_FILTER}[$__rate_interval]))",
    ),
    state_timeline(
        "Model fit",
        "A model that flags more than 30 % of a dataset (60 % if it was trained here) does not fit it: train a model for "
        "its labels, bring one, or map labels where the meaning is the same.",
        Query(f"max by (dataset) (labelwatch_model_misfit{DATASET_FILTER})", "{{dataset}}"),
        texts={0: ("fits", GOOD), 1: ("does not fit", BAD)},
        width=24,
    ),
    time_series(
        "Waiting for a model",
        "Sentences stored because the model has no class for the labels of their dataset. They are judged once it has one.",
        Query(f"max by (dataset) (labelwatch_waiting_sentences{DATASET_FILTER})", "{{dataset}}"),
        width=12,
    ),
    time_series(
        "Trainings",
        "Trainings of the trainer by their result, per hour. GET /v1/datasets/NAME/models has the reasons.",
        Query(
            f"sum by (dataset, result) (increase(labelwatch_trainings_total{DATASET_FILTER}[1h]))",
            "{{dataset}} {{result}}",
        ),
        width=12,
    ),
)

KINDS = (
    bar_gauge(
        "Confusions",
        "Flagged words by the type they were given and the type the model suggests, in the time range shown.",
        f"topk(15, sum by (given, suggested) (increase(labelwatch_confusions_total{DATASET_FILTER}[$__range])) > 0)",
        CONFUSION_LEGEND,
    ),
    time_series(
        "Suspects by kind",
        "Entities that look missed, spurious, of the wrong type or with the wrong boundary; per minute.",
        Query(f"60 * sum by (kind) (rate(labelwatch_suspects_total{DATASET_FILTER}[$__rate_interval]))", "{{kind}}"),
        unit="cpm",
        stacked=True,
        height=9,
    ),
    table(
        "Annotators",
        "Only names in LABELWATCH_METRICS_ANNOTATORS; all others are `other`, sentences without a name "
        "`unknown`. A high share is a reason to look, not a verdict: some texts are harder.",
        {
            "Sentences": Query(
                f"sum by (annotator) (increase(labelwatch_annotator_sentences_total{DATASET_FILTER}[$__range])) > 0",
            ),
            "Flagged": Query(
                f"sum by (annotator) (increase(labelwatch_annotator_flagged_total{DATASET_FILTER}[$__range]))"
                f" and sum by (annotator) (increase(labelwatch_annotator_sentences_total{DATASET_FILTER}[$__range])) > 0",
            ),
            "Share": Query(
                f"sum by (annotator) (increase(labelwatch_annotator_flagged_total{DATASET_FILTER}[$__range]))"
                f" / (sum by (annotator) (increase(labelwatch_annotator_sentences_total{DATASET_FILTER}[$__range])) > 0)",
            ),
        },
        by={"annotator": "Annotator"},
        sort="Share",
        shares=("Share",),
        width=12,
    ),
    table(
        "Annotators against the model",
        "F1 of an annotator's spans against those of the model, with its 95 % interval. Only names in "
        "LABELWATCH_METRICS_ANNOTATORS, and datasets whose model is good enough. It measures agreement with the model, not with the truth.",
        {
            column: Query(
                f'max by (dataset, annotator) (labelwatch_annotator_f1{{dataset=~"$dataset", bound="{bound}"}})'
            )
            for column, bound in (("F1", "estimate"), ("Low", "low"), ("High", "high"))
        },
        by={"dataset": "Dataset", "annotator": "Annotator"},
        sort="F1",
        shares=("F1", "Low", "High"),
        width=12,
    ),
)

THRESHOLDS = (
    time_series(
        "Class thresholds",
        "The mean probability of words given each class. A word is in doubt if another class reaches its threshold.",
        Query(f"avg by (dataset, class) (labelwatch_class_threshold{DATASET_FILTER})", "{{dataset}} {{class}}"),
        unit="percentunit",
        min_value=None,
        max_value=1,
    ),
    time_series(
        "Threshold drift",
        "How far each threshold has moved within the last hour. It settles as words arrive; later moves mean that the "
        "labels or the text have changed.",
        Query(
            f"max by (dataset, class) (max_over_time(labelwatch_class_threshold{DATASET_FILTER}[1h])"
            f" - min_over_time(labelwatch_class_threshold{DATASET_FILTER}[1h]))",
            "{{dataset}} {{class}}",
        ),
        unit="none",
        bad_from=0.05,
    ),
    bar_gauge(
        "Words behind each threshold",
        "The dataset's own words by class. Under 20 a class is warming up.",
        f"max by (dataset, class) (labelwatch_class_words{DATASET_FILTER})",
        "{{dataset}} {{class}}",
        width=24,
    ),
)

REVIEW = (
    time_series(
        "Review queue",
        "Items by state. `closed`: resolved by a new annotation, or deleted.",
        Query(f"sum by (state) (max by (dataset, state) (labelwatch_review_items{DATASET_FILTER}))", "{{state}}"),
        stacked=True,
    ),
    time_series(
        "Decisions",
        "Reviewers' decisions in force, by verdict.",
        Query(f"sum by (verdict) (max by (dataset, verdict) (labelwatch_decisions{DATASET_FILTER}))", "{{verdict}}"),
        stacked=True,
    ),
    time_series(
        "Reviewer precision",
        "Of the decided items, the share that were errors. If it stays low, tune the flag policy.",
        Query(
            f"sum by (dataset) (max by (dataset, given, suggested, method) (labelwatch_reviewer_precision{DATASET_FILTER} * labelwatch_reviewer_precision_items{DATASET_FILTER}))"
            f" / sum by (dataset) (max by (dataset, given, suggested, method) (labelwatch_reviewer_precision_items{DATASET_FILTER}))",
            "{{dataset}}",
        ),
        unit="percentunit",
        max_value=1,
    ),
    time_series(
        "Recall, estimated",
        "From the decisions about the control sample, with its interval.",
        Query(f"max by (dataset, bound) (labelwatch_recall_estimate{DATASET_FILTER})", "{{dataset}} {{bound}}"),
        unit="percentunit",
        max_value=1,
    ),
    table(
        "Precision by pair of labels",
        "Pairs with a low precision and many items waste the time of reviewers.",
        {
            "Precision": Query(
                f"max by (dataset, given, suggested, method) (labelwatch_reviewer_precision{DATASET_FILTER})"
            ),
            "Items": Query(
                f"max by (dataset, given, suggested, method) (labelwatch_reviewer_precision_items{DATASET_FILTER})"
            ),
        },
        by={"dataset": "Dataset", "given": "Given", "suggested": "Suggested", "method": "Method"},
        sort="Items",
        shares=("Precision",),
        width=24,
    ),
)

DASHBOARD: Json = {
    "file": "label-quality",
    "uid": "labelwatch-quality",
    "title": "labelwatch: label quality",
    "description": "Which labels look wrong, in which datasets, and what reviewers decide.",
    "range": "now-24h",
    "variables": {"dataset": "label_values(labelwatch_assessed_sentences_total, dataset)"},
    "rows": {
        "Overview": OVERVIEW,
        "Flags and scores": FLAGS,
        "Confusions and annotators": KINDS,
        "Thresholds": THRESHOLDS,
        "Review": REVIEW,
    },
}
