"""Records of the models topic: the trainings of each dataset, read and written.

The key of a training is `dataset/model`. It writes its record when it starts, while it runs, and when it ends. The key of
a request to train now is `dataset/@request`, which no model can have. The training that takes the request names its id, so
a request is taken once whatever the clocks say. Releases before requests skip the record.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import ValidationError

from service.contracts import Training, TrainingRequest
from service.log.codec import build_event_headers
from service.log.protocol import Output, VersionConflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.log.protocol import Log, Record, RecordPosition

TRAINING_EVENT_TYPE: Final = "labelwatch.training.v1"
TRAINING_REQUEST_EVENT_TYPE: Final = "labelwatch.training-request.v1"
REQUEST_NAME: Final = b"@request"
UNTAKEN_RESULTS: Final = ("stopped",)  # the trainer was stopped: the next one takes the request again


class RequestState(NamedTuple):
    """The last request to train a dataset, and the position of its record, on which the next request builds."""

    request: TrainingRequest | None = None
    position: RecordPosition | None = None


class Trainings:
    """The trainings of all datasets, as the topic says now. Records that can't be read are skipped."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_dataset: dict[str, dict[bytes, Training]] = {}
        self._requests: dict[str, RequestState] = {}
        self.apply_records(records)

    def apply_records(self, records: Iterable[Record]) -> None:
        for record in records:
            key = record.key or b""
            name, _, model = key.partition(b"/")
            dataset = name.decode(errors="replace")
            if model == REQUEST_NAME:
                self._requests[dataset] = _read_request(record, dataset)
                continue
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

    def get_request_state(self, dataset: str) -> RequestState:
        return self._requests.get(dataset, RequestState())

    def find_request(self, dataset: str) -> TrainingRequest | None:
        """The request that no trainer has taken yet."""
        request = self.get_request_state(dataset).request
        if request is None:
            return None
        trainings = self._by_dataset.get(dataset, {}).values()
        taken = any(each.request == request.id and each.result not in UNTAKEN_RESULTS for each in trainings)
        return None if taken else request

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


def create_request(dataset: str) -> TrainingRequest:
    return TrainingRequest(dataset=dataset, id=str(uuid.uuid4()), requested_at=datetime.now(UTC))


def write_request(
    log: Log,
    topic: str,
    request: TrainingRequest,
    state: RequestState,
    *,
    also: Sequence[Output] = (),
    timeout: float = 30.0,
) -> None:
    """Writes a request and what goes with it, unless somebody else has requested the same since `state` was read."""
    with suppress(VersionConflict):
        log.append_if_unchanged(build_request_message(topic, request), state.position, also=also, timeout=timeout)


def build_request_message(topic: str, request: TrainingRequest) -> Output:
    headers = build_event_headers(TRAINING_REQUEST_EVENT_TYPE, event_id=request.id, at=request.requested_at)
    return Output(topic, request.dataset.encode() + b"/" + REQUEST_NAME, request.model_dump_json().encode(), headers)


def _read_request(record: Record, dataset: str) -> RequestState:
    with suppress(ValidationError):
        request = TrainingRequest.model_validate_json(record.value or b"")
        if request.dataset == dataset:
            return RequestState(request, record.position)
    return RequestState(None, record.position)
