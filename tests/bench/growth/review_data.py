"""Assessments and decisions without a model: sentences of 15 words in the labels of CoNLL-2003, most of them flagged.

A pool of sentences is written once. A record takes one of them with an id, a priority, an annotator and a day of its own, so
that a million records cost seconds.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from service.log.protocol import Output
from service.log.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Log

TOPICS: Final = Topics()
DATASET: Final = "news"
NOW: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
TYPES: Final = ("PER", "ORG", "LOC", "MISC")
LABELS: Final = ("O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI"))
WEIGHTS: Final = {label: 0.999 if label == "O" else 0.98 for label in LABELS}
N_WORDS: Final = 15
N_POOL: Final = 2_000
N_VOCABULARY: Final = 20_000
CONTROL_SHARE: Final = 0.05
DECIDED_SHARE: Final = 0.02
APPEND_RECORDS: Final = 5_000
COMMON_WORD: Final = "w0"
COMMON_PREFIX: Final = "w*"  # of all words
RARE_WORD: Final = "w15000"


class AssessmentSource:
    """Review messages of one dataset, numbered from 0. Every twentieth is a control sentence."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._pool = [self._write_body() for _ in range(N_POOL)]
        self._stride = 1_013  # prime to the pool: neighbours differ

    def build_output(self, number: int, dataset: str = DATASET) -> Output:
        head, is_control = self._build_head(number, dataset)
        labels, body = self._pool[number * self._stride % N_POOL]
        doubt = "" if is_control else f'"flags":[{body["worst"]}],"suspects":[{body["suspect"]}],'
        text = f'{head[:-1]},{doubt}"worst":{body["worst"]},{labels}'
        return Output(TOPICS.review, f"{dataset}/s{number}".encode(), text.encode())

    def _build_head(self, number: int, dataset: str) -> tuple[str, bool]:
        priority = (number * 0.6180339887498949) % 1.0
        is_control = number % round(1 / CONTROL_SHARE) == 7
        head: dict[str, Any] = {
            "dataset": dataset,
            "id": f"s{number}",
            "annotator": f"annotator-{number % 20}",
            "batch": f"batch-{number % 50}",
            "reason": "control" if is_control else "flagged",
            "score": priority,
            "priority": priority,
            "scored_at": (NOW - timedelta(days=number % 60)).isoformat(),
        }
        if is_control:
            head["inclusion_probability"] = CONTROL_SHARE
        return json.dumps(head, separators=(",", ":")), is_control

    def _write_body(self) -> tuple[str, dict[str, str]]:
        random = self._random
        words = np.minimum(random.zipf(1.3, N_WORDS) - 1, N_VOCABULARY - 1)
        labels = [LABELS[0] if random.random() < 0.8 else str(random.choice(LABELS[1::2])) for _ in range(N_WORDS)]
        p_given = random.beta(8.0, 0.5, N_WORDS).tolist()
        worst = int(np.argmin(p_given))
        suggested = str(random.choice([label for label in LABELS[:1] + LABELS[1::2] if label != labels[worst]]))
        flag = {
            "index": worst,
            "token": f"w{words[worst]}",
            "given": labels[worst],
            "suggested": suggested,
            "p_given": p_given[worst],
            "p_suggested": 1 - p_given[worst],
            "threshold": 0.9,
        }
        given_span, suggested_span = (
            None if label == "O" else {"start": worst, "end": worst + 1, "type": label[2:]}
            for label in (labels[worst], suggested)
        )
        kind = "missed" if given_span is None else "spurious" if suggested_span is None else "type"
        suspect = {
            "kind": kind,
            **({} if given_span is None else {"given_span": given_span}),
            **({} if suggested_span is None else {"suggested_span": suggested_span}),
            "confidence": 1 - p_given[worst],
        }
        body = {
            "tokens": [f"w{word}" for word in words],
            "labels": labels,
            "method": "worst-token",
            "token_score": "self-confidence",
            "weights": WEIGHTS,
            "words": [{"p_given": p, "score": p} for p in p_given],
            "thresholds": dict.fromkeys(LABELS, 0.9),
            "model": {"name": "default", "fingerprint": "f00d"},
        }
        text = json.dumps(body, separators=(",", ":"))[1:]
        return text, {name: json.dumps(part) for name, part in (("worst", flag), ("suspect", suspect))}

    def build_decision(self, number: int, reviewer: str, dataset: str = DATASET) -> Output:
        """Every third is right as it is. Later items are decided later: a decision before others is fitted at once."""
        decision = {
            "dataset": dataset,
            "id": f"s{number}",
            "reviewer": reviewer,
            "verdict": "ok" if number % 3 == 0 else "error",
            "decided_at": (NOW - timedelta(seconds=2_000_000 - number)).isoformat(),
        }
        return Output(TOPICS.decisions, f"{dataset}/s{number}/{reviewer}".encode(), json.dumps(decision).encode())


@cache
def get_source() -> AssessmentSource:
    return AssessmentSource()


def append_all(log: Log, outputs: Iterator[Output]) -> None:
    """In large transactions."""
    batch: list[Output] = []
    for output in outputs:
        batch.append(output)
        if len(batch) == APPEND_RECORDS:
            log.append(batch)
            batch.clear()
    log.append(batch)


def append_queue(log: Log, items: int, *, decided_share: float = DECIDED_SHARE) -> None:
    """The settings of the dataset, so many assessments, and decisions about a share of them by five reviewers."""
    source = get_source()
    settings = {"name": DATASET, "version": 1, "control_share": CONTROL_SHARE}
    log.append([Output(TOPICS.datasets, DATASET.encode(), json.dumps(settings).encode())])
    append_all(log, (source.build_output(number) for number in range(items)))
    decided = range(0, items, round(1 / decided_share)) if decided_share else range(0)
    append_all(log, (source.build_decision(number, f"reviewer-{number % 5}") for number in decided))
