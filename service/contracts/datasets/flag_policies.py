"""Flag policies: which sentences of a dataset go to review. Each policy holds its fields and its rule.

To add a policy, write its class here, add it to `FlagPolicy` and describe it in docs/stream.md. Settings, REST, the
command line, error texts and the judge follow from this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal, NamedTuple, Protocol, get_args

from pydantic import ConfigDict, Field

from service.contracts.base import Message


class PriorityDistribution(Protocol):
    """The priorities of the sentences that a dataset's statistics contain."""

    def find_cutoff(self, share: float) -> float:
        """The priority below which the lowest `share` of the sentences lies."""


class ScoredSentence(NamedTuple):
    """What a policy decides by. `score` and `priority` are None if no word of the sentence is scored."""

    has_flags: bool
    score: float | None
    priority: float | None


class BaseFlagPolicy(Message, ABC):
    kind: str

    @abstractmethod
    def compute_cutoff(self, priorities: PriorityDistribution, /) -> float | None:
        """The number below which a sentence goes to review; None if the policy compares no number.

        It depends on the statistics only: the judge computes it once per threshold set.
        """

    @abstractmethod
    def selects(self, sentence: ScoredSentence, cutoff: float | None, /) -> bool:
        """Whether the sentence goes to review."""


class ConfidentPolicy(BaseFlagPolicy):
    """A sentence goes to review if confident learning flags one of its words."""

    model_config = ConfigDict(json_schema_extra={"required": ["kind"]})  # it tells the policies apart

    kind: Literal["confident"] = "confident"

    def compute_cutoff(self, _priorities: PriorityDistribution, /) -> float | None:
        return None

    def selects(self, sentence: ScoredSentence, _cutoff: float | None, /) -> bool:
        return sentence.has_flags


class BelowPolicy(BaseFlagPolicy):
    """A sentence goes to review if its score is below the cut."""

    kind: Literal["below"]
    cut: float

    def compute_cutoff(self, _priorities: PriorityDistribution, /) -> float:
        return self.cut

    def selects(self, sentence: ScoredSentence, cutoff: float | None, /) -> bool:
        return _is_below(sentence.score, cutoff)


class BudgetPolicy(BaseFlagPolicy):
    """The share of sentences with the lowest priority goes to review: as many as the reviewers can handle."""

    kind: Literal["budget"]
    share: float = Field(gt=0, le=1)

    def compute_cutoff(self, priorities: PriorityDistribution, /) -> float:
        return priorities.find_cutoff(self.share)

    def selects(self, sentence: ScoredSentence, cutoff: float | None, /) -> bool:
        return _is_below(sentence.priority, cutoff)


def _is_below(number: float | None, cutoff: float | None) -> bool:
    return number is not None and cutoff is not None and number < cutoff


FlagPolicy = Annotated[ConfidentPolicy | BelowPolicy | BudgetPolicy, Field(discriminator="kind")]
FLAG_POLICIES: tuple[type[BaseFlagPolicy], ...] = get_args(get_args(FlagPolicy)[0])


def describe_flag_policies() -> str:
    """One example of each policy, for error texts: `{"kind": "confident"}, … or {"kind": "budget", "share": …}`."""
    *others, last = (_format_example(policy) for policy in FLAG_POLICIES)
    return f"{', '.join(others)} or {last}"


def _format_example(policy: type[BaseFlagPolicy]) -> str:
    (kind,) = get_args(policy.model_fields["kind"].annotation)
    fields = [f'"{name}": …' for name in policy.model_fields if name != "kind"]
    return "{" + ", ".join((f'"kind": "{kind}"', *fields)) + "}"
