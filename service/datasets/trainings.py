"""Records of the models topic: the trainings of each dataset, read and written.

The key is `dataset/model`. A training writes its record when it starts, while it runs, and when it ends.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from service.contracts import Training
from service.log.codec import build_event_headers
from service.log.protocol import Output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.log.protocol import Record

TRAINING_EVENT_TYPE: Final = "labelwatch.training.v1"


class Trainings:
    """The trainings of all datasets, as the topic says now. Records that can't be read are skipped."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_dataset: dict[str, dict[bytes, Training]] = {}
        self.apply_records(records)

    def apply_records(self, records: Iterable[Record]) -> None:
        for record in records:
            key = record.key or b""
            dataset = key.partition(b"/")[0].decode(errors="replace")
            trainings = self._by_dataset.setdefault(dataset, {})
            trainings.pop(key, None)
            if record.value is not None:
                with suppress(ValidationError):  # a newer labelwatch may write results that this one does not know
                    training = Training.model_validate_json(record.value)
                    if training.dataset == dataset:
                        trainings[key] = training
            if not trainings:
                del self._by_dataset[dataset]

    def list_newest_first(self, dataset: str) -> tuple[Training, ...]:
        trainings = self._by_dataset.get(dataset, {}).values()
        return tuple(sorted(trainings, key=lambda training: training.started_at, reverse=True))

    def list_running(self) -> tuple[Training, ...]:
        by_key = self._by_dataset.values()
        return tuple(each for trainings in by_key for each in trainings.values() if each.result == "running")

    @property
    def datasets(self) -> frozenset[str]:
        return frozenset(self._by_dataset)


def build_training_message(topic: str, training: Training) -> Output:
    headers = build_event_headers(TRAINING_EVENT_TYPE, event_id=str(uuid.uuid4()), at=datetime.now(UTC))
    value = training.model_dump_json(exclude_none=True).encode()
    return Output(topic, f"{training.dataset}/{training.model}".encode(), value, headers)
