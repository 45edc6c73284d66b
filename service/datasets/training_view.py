"""Follows the models topic in a thread of its own, so that API and trainer can ask for the trainings of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.datasets.trainings import Trainings
from service.log.topic_view import TopicView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.contracts import Training, TrainingRequest
    from service.datasets.trainings import RequestState
    from service.log.protocol import Log, Record


class TrainingView(TopicView):
    """The trainings of all datasets. Nothing but the list of trainings depends on it."""

    subject = "the trainings of models"

    def __init__(self, log: Log, topic: str) -> None:
        super().__init__(log, topic)
        self._trainings = Trainings()

    def apply(self, records: Sequence[Record]) -> None:
        self._trainings.apply_records(records)

    def list_running(self) -> tuple[Training, ...]:
        """Of all datasets."""
        with self.lock:
            return self._trainings.list_running()

    def list_trainings(self, dataset: str) -> tuple[Training, ...]:
        """The newest first."""
        with self.lock:
            return self._trainings.list_newest_first(dataset)

    def get_request_state(self, dataset: str) -> RequestState:
        with self.lock:
            return self._trainings.get_request_state(dataset)

    def find_request(self, dataset: str) -> TrainingRequest | None:
        """The request to train the dataset that no trainer has taken yet."""
        with self.lock:
            return self._trainings.find_request(dataset)
