"""Whether a model fits a dataset, by the share of sentences that it flags.

The share counts sentences with a flagged word (the paper's rule), whatever the flag policy sends to review.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.labels.unknown_labels import CLI_ADVICE, MappingAdvice, advise_other_model, build_settings_advice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.statistics.arrivals import FlagCounts

MIN_MISFIT_SENTENCES = 50  # fewer say little about the share
MAX_FLAGGED_SHARE = 0.3  # label errors are rarer than this, so above it the model is wrong, not the labels
MAX_DESCRIBED_MISFITS = 3
# Flags of trained models are less precise: they flag 7 to 41 % of the samples that they were trained on, out of sample, and
# 71 % of text in another language.
MAX_TRAINED_FLAGGED_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Misfit:
    """A model that flags an implausible share of a dataset."""

    counts: FlagCounts
    max_share: float

    def explain(self, advice: MappingAdvice = CLI_ADVICE) -> str:
        """What the share of flagged sentences means, and what to do."""
        sentences, flagged = self.counts
        other_model = advise_other_model(advice)
        return (
            f"the model does not fit this data: it flags {flagged / sentences:.0%} of {sentences:,} sentences, and more "
            f"than {self.max_share:.0%} is implausible. {other_model[0].upper()}{other_model[1:]}, or map labels where "
            "the meaning is the same"
        )


def find_misfit(counts: FlagCounts, *, is_trained: bool = False) -> Misfit | None:
    """The misfit, if the model flags an implausible share. `is_trained`: whether `labelwatch train` made the model."""
    max_share = MAX_TRAINED_FLAGGED_SHARE if is_trained else MAX_FLAGGED_SHARE
    if counts.sentences < MIN_MISFIT_SENTENCES or counts.flagged <= max_share * counts.sentences:
        return None
    return Misfit(counts, max_share)


def describe_misfits(misfits: Mapping[str, Misfit]) -> str:
    """The datasets with the share and what to do, for readiness; empty if every model fits."""
    texts = [
        f"dataset {name}: {misfits[name].explain(build_settings_advice(name))}"
        for name in sorted(misfits)[:MAX_DESCRIBED_MISFITS]
    ]
    more = len(misfits) - len(texts)
    return "; ".join([*texts, f"{more} more datasets"] if more else texts)
