"""Whether a model fits a dataset, by the share of sentences that it flags."""

from __future__ import annotations

from service.labels.unknown_labels import CLI_ADVICE, MappingAdvice, advise_other_model

MIN_MISFIT_SENTENCES = 50  # fewer say little about the share
MAX_FLAGGED_SHARE = 0.3  # label errors are rarer than this, so above it the model is wrong, not the labels


def is_misfit(sentences: int, flagged: int) -> bool:
    """Whether the model flags an implausible share of the sentences."""
    return sentences >= MIN_MISFIT_SENTENCES and flagged > MAX_FLAGGED_SHARE * sentences


def explain_misfit(sentences: int, flagged: int, advice: MappingAdvice = CLI_ADVICE) -> str:
    """What the share of flagged sentences means, and what to do."""
    other_model = advise_other_model(advice)
    return (
        f"the model does not fit this data: it flags {flagged / sentences:.0%} of {sentences:,} sentences, and more than "
        f"{MAX_FLAGGED_SHARE:.0%} is implausible. {other_model[0].upper()}{other_model[1:]}, or map labels where the "
        "meaning is the same"
    )
