"""The topics: their names, cleanup policies, message sizes and partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MIB = 1024 * 1024
MAX_INPUT_BYTES = MIB
# An assessment repeats the sentence and adds scores for every word. A dead letter adds headers.
MAX_OUTPUT_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    cleanup_policy: Literal["delete", "compact"]
    max_message_bytes: int
    per_source_partition: bool = False
    partitions: int | None = None  # none: as many as the input has


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one prefix. A replay or a second instance has a prefix of its own.

    `source` names the input topic if it does not have the prefix: a replay reads the input of the live topics.
    """

    prefix: str = "labelwatch."
    source: str | None = None

    @property
    def sentences(self) -> str:
        return self.source or f"{self.prefix}sentences"

    @property
    def review(self) -> str:
        return f"{self.prefix}review"

    @property
    def scores(self) -> str:
        return f"{self.prefix}scores"

    @property
    def dead_letters(self) -> str:
        return f"{self.prefix}dead-letters"

    @property
    def waiting(self) -> str:
        return f"{self.prefix}waiting"

    @property
    def state(self) -> str:
        return f"{self.prefix}state"

    @property
    def datasets(self) -> str:
        return f"{self.prefix}datasets"

    @property
    def decisions(self) -> str:
        return f"{self.prefix}decisions"

    @property
    def models(self) -> str:
        return f"{self.prefix}models"

    @property
    def keys(self) -> str:
        return f"{self.prefix}keys"

    @property
    def audit(self) -> str:
        return f"{self.prefix}audit"

    @property
    def webhooks(self) -> str:
        return f"{self.prefix}webhooks"

    def list_specs(self) -> tuple[TopicSpec, ...]:
        return (
            TopicSpec(self.sentences, "delete", MAX_INPUT_BYTES),
            TopicSpec(self.review, "compact", MAX_OUTPUT_BYTES),
            TopicSpec(self.scores, "delete", MAX_OUTPUT_BYTES),
            TopicSpec(self.dead_letters, "delete", MAX_OUTPUT_BYTES),
            TopicSpec(self.waiting, "compact", MAX_OUTPUT_BYTES, per_source_partition=True),
            TopicSpec(self.state, "compact", MAX_OUTPUT_BYTES, per_source_partition=True),
            TopicSpec(self.datasets, "compact", MIB, partitions=1),
            TopicSpec(self.decisions, "compact", MIB),
            TopicSpec(self.models, "compact", MIB, partitions=1),
            TopicSpec(self.keys, "compact", MIB, partitions=1),
            TopicSpec(self.audit, "delete", MIB, partitions=1),
            TopicSpec(self.webhooks, "compact", MIB, partitions=1),
        )
