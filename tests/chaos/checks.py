"""What must be true of the topics after any chaos, said of their content alone: a list of what is wrong, empty if nothing.

Every assessment is published to the scores topic too, so that it is known of each sentence what the worker thought
of it, and what the review topic must and must not hold.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from service.contracts import DatasetSettings, read_sentence
from service.inference.classifier import WordProbs
from service.judging.judge import Judge
from service.scoring.confident import UNREACHABLE_THRESHOLD, flag_words
from service.statistics.class_stats import ClassStats
from service.statistics.running import RunningStats
from tests.chaos.messages import DATASETS, MAX_WORDS, SERIAL, GeneratedMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.inference.classifier import Classifier
    from service.judging.types import Observation
    from tests.chaos.reading import ConsumedMessage, TopicDump

PartitionOffset = tuple[int, int]
ERROR_HEADER_PREFIX = "__connect.errors."
MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TopicDumps:
    """The topics as a read_committed consumer sees them."""

    sentences: TopicDump
    review: TopicDump
    scores: TopicDump
    dead_letters: TopicDump
    state: TopicDump


class ProblemList(list[str]):
    """Sentences; many of one kind are told by the first few."""

    def add_group(self, what: str, places: Iterable[object]) -> None:
        found = list(places)
        if found:
            more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
            self.append(f"{what}: {', '.join(map(str, found[:MAX_SHOWN]))}{more}")


class TopicChecker:
    """Holds topics against what was sent, with one pass of the model over all of it."""

    def __init__(self, classifier: Classifier, *, min_words: int, prior_words: int) -> None:
        self._classifier = classifier
        self._min_words, self._prior_words = min_words, prior_words
        self._judges = {one.name: self._build_judge(one) for one in DATASETS}

    def check(self, logs: TopicDumps, sent: Mapping[int, GeneratedMessage], acknowledged: Iterable[int]) -> list[str]:
        problems = ProblemList()
        inputs = {message.partition_offset: message for message in logs.sentences.messages}
        serials = {place: int(dict(message.headers)[SERIAL]) for place, message in inputs.items()}
        problems.add_group(
            "acknowledged messages are not in the input", sorted(set(acknowledged) - set(serials.values()))
        )
        bad = {place: stage for place, serial in serials.items() if (stage := sent[serial].stage)}
        self._check_dead_letters(logs.dead_letters, inputs, bad, problems)
        seen = self._observe_all(inputs[place] for place in inputs if place not in bad)
        self._check_assessments(logs, {place: inputs[place] for place in seen}, seen, problems)
        self._check_state(logs, seen, problems)
        return problems

    def get_judge(self, dataset: str) -> Judge:
        if dataset not in self._judges:
            self._judges[dataset] = self._build_judge(DatasetSettings(name=dataset))
        return self._judges[dataset]

    def _build_judge(self, settings: DatasetSettings) -> Judge:
        folder = self._classifier.folder
        return Judge(folder, settings, min_words=self._min_words, prior_words=self._prior_words)

    def _observe_all(self, messages: Iterable[ConsumedMessage]) -> dict[PartitionOffset, Observation | None]:
        """Every good sentence with its words as the model sees them; none for one that is deleted."""
        sentences = {
            message.partition_offset: read_sentence(message.value or b"", max_words=MAX_WORDS) for message in messages
        }
        there = [place for place, sentence in sentences.items() if not sentence.deleted]
        answers = self._classifier.infer([sentences[place].tokens for place in there])
        seen: dict[PartitionOffset, Observation | None] = dict.fromkeys(sentences)
        for place, words in zip(there, answers, strict=True):
            assert isinstance(words, WordProbs)
            seen[place] = self.get_judge(sentences[place].dataset).observe(sentences[place], words)
        return seen

    # -- outputs ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _check_dead_letters(
        topic: TopicDump,
        inputs: Mapping[PartitionOffset, ConsumedMessage],
        bad: Mapping[PartitionOffset, str],
        problems: ProblemList,
    ) -> None:
        letters = [(_read_origin(letter), letter) for letter in topic.messages]
        _check_exactly_once("dead letters", (place for place, _ in letters), bad, problems)
        for place, letter in letters:
            if place not in bad:
                continue
            original = inputs[place]
            kept = letter.headers[: len(original.headers)]
            if (letter.key, letter.value, kept) != (original.key, original.value, original.headers):
                problems.append(f"the dead letter of {place} is not its message byte for byte")
            stage = dict(letter.headers)[f"{ERROR_HEADER_PREFIX}stage"].decode()
            if stage != bad[place]:
                problems.append(f"the dead letter of {place} says {stage} where {bad[place]} is right")

    def _check_assessments(
        self,
        logs: TopicDumps,
        good: Mapping[PartitionOffset, ConsumedMessage],
        seen: Mapping[PartitionOffset, Observation | None],
        problems: ProblemList,
    ) -> None:
        scored = [(_read_position(message), message) for message in logs.scores.messages]
        _check_exactly_once("scores", (place for place, _ in scored), good, problems)
        said = dict(scored)
        wanted = []
        for place, message in said.items():
            if place in good:
                assessment = json.loads(message.value or b"")
                if assessment["reason"] != "scored":
                    wanted.append(place)
                problems.extend(f"{place}: {what}" for what in self._reassess(good[place], assessment, seen[place]))
        reviewed = [(_read_position(message), message) for message in logs.review.messages]
        _check_exactly_once("review", (place for place, _ in reviewed), wanted, problems)
        problems.add_group(
            "review says something else than scores of",
            [
                place
                for place, message in reviewed
                if place in said and (message.key, message.value) != (said[place].key, said[place].value)
            ],
        )

    def _reassess(self, message: ConsumedMessage, said: dict[str, Any], seen: Observation | None) -> Iterable[str]:
        """An assessment's own tokens, labels and thresholds must give its flags, and those its reason."""
        sent = json.loads(message.value or b"")
        identity = sent.get("id") or f"{message.topic}-{message.partition}-{message.offset}"
        dataset = sent.get("dataset", "default")
        if (said["id"], said["dataset"]) != (identity, dataset):
            yield f"is assessed as {said['dataset']}/{said['id']} and is {dataset}/{identity}"
        for field in ("tokens", "labels"):
            if said[field] != sent.get(field, []):
                yield f"its assessment has other {field}"
        if seen is None:
            if said["reason"] != "deleted":
                yield f"is deleted, and its assessment says {said['reason']}"
            return
        judge = self.get_judge(dataset)
        told = (said["thresholds"].get(name) for name in judge.classes)
        carried = np.array([UNREACHABLE_THRESHOLD if one is None else one for one in told])  # none: too little evidence
        flagged = seen.word_index[flag_words(seen.probs, seen.given, carried)].tolist()
        if [flag["index"] for flag in said["flags"]] != flagged:
            yield f"judged again the words {flagged} are flagged, its assessment says {said['flags']}"
        control = _hash_to_share(f"{dataset}/{identity}") < judge.settings.control_share
        reason = "flagged" if flagged else "update" if sent.get("update") else "control" if control else "scored"
        if said["reason"] != reason:
            yield f"its assessment says {said['reason']} and must say {reason}"

    # -- state -----------------------------------------------------------------------------------------------------

    def _check_state(
        self, logs: TopicDumps, seen: Mapping[PartitionOffset, Observation | None], problems: ProblemList
    ) -> None:
        positions: dict[int, int] = {}
        kept: dict[tuple[int, str], RunningStats] = {}
        for (at, key), value in logs.state.compact().items():
            kind, partition, *account = json.loads(key or b"")
            if partition != at:
                problems.append(f"state of partition {partition} lies in partition {at} of the state topic")
            if kind == "position":
                positions[partition] = json.loads(value or b"")["next_offset"]
                continue
            dataset, stats_key = account
            if stats_key != self.get_judge(dataset).stats_key or (partition, dataset) in kept:
                problems.append(f"{dataset} has statistics under the unknown key {stats_key}")
            kept[partition, dataset] = RunningStats.restore(json.loads(value or b""))
        ends = {partition: end for partition, end in logs.sentences.end_offsets.items() if end}
        if positions != ends:
            problems.append(f"the positions in the state are {positions} and the input ends at {ends}")
        wanted, sentences = self._sum_by_partition(seen)
        for partition, dataset in sorted(wanted.keys() | kept.keys()):
            found = kept.get((partition, dataset), self.get_judge(dataset).create_empty_stats())
            right = wanted.get((partition, dataset), ClassStats.empty(found.n_classes))
            if found.get_total() != right:
                problems.append(
                    f"partition {partition}, {dataset}: {found.get_total()} learned where one pass gives {right}"
                )
            number = sentences[partition, dataset]
            if found.histogram.total != number:
                problems.append(f"partition {partition}, {dataset}: {found.histogram.total} of {number} sentences")
        for dataset in sorted({name for _, name in wanted}):
            if _merge_stats(dataset, {place: stats.get_total() for place, stats in kept.items()}) != _merge_stats(
                dataset, wanted
            ):
                problems.append(f"{dataset}: the sums over all partitions are not those of one pass")

    def _sum_by_partition(
        self, seen: Mapping[PartitionOffset, Observation | None]
    ) -> tuple[dict[tuple[int, str], ClassStats], Counter[tuple[int, str]]]:
        together: defaultdict[tuple[int, str], list[Observation]] = defaultdict(list)
        for (partition, _), one in seen.items():
            if one is not None and len(one.given):
                together[partition, one.sentence.dataset].append(one)
        sums = {
            place: ClassStats.empty(len(self.get_judge(place[1]).classes)).update(
                np.concatenate([one.probs for one in observed]), np.concatenate([one.given for one in observed])
            )
            for place, observed in together.items()
        }
        return sums, Counter({place: len(observed) for place, observed in together.items()})


def _merge_stats(dataset: str, sums: Mapping[tuple[int, str], ClassStats]) -> ClassStats | None:
    total: ClassStats | None = None
    for (_, name), stats in sums.items():
        if name == dataset:
            total = stats if total is None else total.merge(stats)
    return total


def _check_exactly_once(
    topic: str, found: Iterable[PartitionOffset], wanted: Iterable[PartitionOffset], problems: ProblemList
) -> None:
    counts, must = Counter(found), set(wanted)
    problems.add_group(f"{topic} holds more than once", sorted(place for place, n in counts.items() if n > 1))
    problems.add_group(f"{topic} lacks", sorted(must - counts.keys()))
    problems.add_group(f"{topic} holds what does not belong there", sorted(counts.keys() - must))


def _read_origin(letter: ConsumedMessage) -> PartitionOffset:
    headers = dict(letter.headers)
    return int(headers[f"{ERROR_HEADER_PREFIX}partition"]), int(headers[f"{ERROR_HEADER_PREFIX}offset"])


def _read_position(message: ConsumedMessage) -> PartitionOffset:
    position = json.loads(message.value or b"")["position"]
    return position["partition"], position["offset"]


def _hash_to_share(name: str) -> float:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64


# -- how long partitions stood still -----------------------------------------------------------------------------------


class Stall(NamedTuple):
    seconds: float
    partition: int
    since: datetime


def find_longest_stall(
    sentences: TopicDump, positions: Mapping[int, Sequence[tuple[int, int]]], outages: Sequence[tuple[int, int]] = ()
) -> Stall:
    """The longest time in which a partition had messages to read and none was committed, once it had begun.

    `positions` are (milliseconds, next offset), in order; `away` is when there was no broker at all, which is not counted.
    """
    arrived = {message.partition_offset: message.timestamp_ms for message in sentences.messages}
    longest = (0, 0, 0)
    for partition, steps in positions.items():
        for (before, offset), (now, _) in pairwise(steps):
            since = max(before, arrived.get((partition, offset), now))
            nobody = sum(max(0, min(now, end) - max(since, start)) for start, end in outages)
            longest = max(longest, (now - since - nobody, partition, since))
    waited, partition, since = longest
    return Stall(waited / 1000, partition, datetime.fromtimestamp(since / 1000, UTC))
