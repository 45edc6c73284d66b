"""The share of flagged sentences among the recent ones of each dataset."""

from __future__ import annotations

from service.judging.misfit import is_misfit

MAX_RECENT_SENTENCES = 1_000


class ModelFit:
    """Counts of recent sentences by dataset. The older half is given up when there are MAX_RECENT_SENTENCES."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}

    def add(self, dataset: str, sentences: int, flagged: int) -> bool:
        """Adds the sentences of a batch. Returns whether the model does not fit the dataset."""
        old_sentences, old_flagged = self._counts.get(dataset, (0, 0))
        if old_sentences >= MAX_RECENT_SENTENCES:
            old_sentences, old_flagged = old_sentences // 2, old_flagged // 2
        counts = self._counts[dataset] = old_sentences + sentences, old_flagged + flagged
        return is_misfit(*counts)

    def list_misfits(self) -> dict[str, tuple[int, int]]:
        """The recent sentences and how many of them are flagged, of the datasets that the model does not fit."""
        return {dataset: counts for dataset, counts in dict(self._counts).items() if is_misfit(*counts)}
