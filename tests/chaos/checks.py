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
from service.scoring.confident import NEVER, flag_words
from service.statistics.class_stats import ClassStats
from service.statistics.running import RunningStats
from tests.chaos.messages import DATASETS, MAX_WORDS, SERIAL, Made

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.inference.classifier import Classifier
    from service.judging.types import Observation
    from tests.chaos.reading import Message, Topic

Place = tuple[int, int]
ERRORS = "__connect.errors."
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Logs:
    """The topics as a read_committed consumer sees them."""

    sentences: Topic
    review: Topic
    scores: Topic
    dead_letters: Topic
    state: Topic


class Problems(list[str]):
    """Sentences; many of one kind are told by the first few."""

    def of(self, what: str, places: Iterable[object]) -> None:
        found = list(places)
        if found:
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            self.append(f"{what}: {', '.join(map(str, found[:SHOWN]))}{more}")


class Checker:
    """Holds topics against what was sent, with one pass of the model over all of it."""

    def __init__(self, classifier: Classifier, *, min_words: int, prior_words: int) -> None:
        self._classifier = classifier
        self._min_words, self._prior_words = min_words, prior_words
        self._judges = {one.name: self._made(one) for one in DATASETS}

    def check(self, logs: Logs, sent: Mapping[int, Made], acknowledged: Iterable[int]) -> list[str]:
        problems = Problems()
        inputs = {message.place: message for message in logs.sentences.messages}
        serials = {place: int(dict(message.headers)[SERIAL]) for place, message in inputs.items()}
        problems.of("acknowledged messages are not in the input", sorted(set(acknowledged) - set(serials.values())))
        bad = {place: stage for place, serial in serials.items() if (stage := sent[serial].stage)}
        self._check_dead_letters(logs.dead_letters, inputs, bad, problems)
        seen = self._one_pass(inputs[place] for place in inputs if place not in bad)
        self._check_assessments(logs, {place: inputs[place] for place in seen}, seen, problems)
        self._check_state(logs, seen, problems)
        return problems

    def judge(self, dataset: str) -> Judge:
        if dataset not in self._judges:
            self._judges[dataset] = self._made(DatasetSettings(name=dataset))
        return self._judges[dataset]

    def _made(self, settings: DatasetSettings) -> Judge:
        folder = self._classifier.folder
        return Judge(folder, settings, min_words=self._min_words, prior_words=self._prior_words)

    def _one_pass(self, messages: Iterable[Message]) -> dict[Place, Observation | None]:
        """Every good sentence with its words as the model sees them; none for one that is deleted."""
        sentences = {message.place: read_sentence(message.value or b"", max_words=MAX_WORDS) for message in messages}
        there = [place for place, sentence in sentences.items() if not sentence.deleted]
        answers = self._classifier.infer([sentences[place].tokens for place in there])
        seen: dict[Place, Observation | None] = dict.fromkeys(sentences)
        for place, words in zip(there, answers, strict=True):
            assert isinstance(words, WordProbs)
            seen[place] = self.judge(sentences[place].dataset).observe(sentences[place], words)
        return seen

    # -- outputs ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _check_dead_letters(
        topic: Topic, inputs: Mapping[Place, Message], bad: Mapping[Place, str], problems: Problems
    ) -> None:
        letters = [(_origin(letter), letter) for letter in topic.messages]
        _exactly_once("dead letters", (place for place, _ in letters), bad, problems)
        for place, letter in letters:
            if place not in bad:
                continue
            original = inputs[place]
            kept = letter.headers[: len(original.headers)]
            if (letter.key, letter.value, kept) != (original.key, original.value, original.headers):
                problems.append(f"the dead letter of {place} is not its message byte for byte")
            stage = dict(letter.headers)[f"{ERRORS}stage"].decode()
            if stage != bad[place]:
                problems.append(f"the dead letter of {place} says {stage} where {bad[place]} is right")

    def _check_assessments(
        self,
        logs: Logs,
        good: Mapping[Place, Message],
        seen: Mapping[Place, Observation | None],
        problems: Problems,
    ) -> None:
        scored = [(_position(message), message) for message in logs.scores.messages]
        _exactly_once("scores", (place for place, _ in scored), good, problems)
        said = dict(scored)
        wanted = []
        for place, message in said.items():
            if place in good:
                assessment = json.loads(message.value or b"")
                if assessment["reason"] != "scored":
                    wanted.append(place)
                problems.extend(f"{place}: {what}" for what in self._judged_again(good[place], assessment, seen[place]))
        reviewed = [(_position(message), message) for message in logs.review.messages]
        _exactly_once("review", (place for place, _ in reviewed), wanted, problems)
        problems.of(
            "review says something else than scores of",
            [
                place
                for place, message in reviewed
                if place in said and (message.key, message.value) != (said[place].key, said[place].value)
            ],
        )

    def _judged_again(self, message: Message, said: dict[str, Any], seen: Observation | None) -> Iterable[str]:
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
        judge = self.judge(dataset)
        told = (said["thresholds"].get(name) for name in judge.classes)
        carried = np.array([NEVER if one is None else one for one in told])  # none: too little evidence
        flagged = seen.index[flag_words(seen.probs, seen.given, carried)].tolist()
        if [flag["index"] for flag in said["flags"]] != flagged:
            yield f"judged again the words {flagged} are flagged, its assessment says {said['flags']}"
        control = _share(f"{dataset}/{identity}") < judge.settings.control_share
        reason = "flagged" if flagged else "update" if sent.get("update") else "control" if control else "scored"
        if said["reason"] != reason:
            yield f"its assessment says {said['reason']} and must say {reason}"

    # -- state -----------------------------------------------------------------------------------------------------

    def _check_state(self, logs: Logs, seen: Mapping[Place, Observation | None], problems: Problems) -> None:
        positions: dict[int, int] = {}
        kept: dict[tuple[int, str], RunningStats] = {}
        for (at, key), value in logs.state.newest().items():
            kind, partition, *account = json.loads(key or b"")
            if partition != at:
                problems.append(f"state of partition {partition} lies in partition {at} of the state topic")
            if kind == "position":
                positions[partition] = json.loads(value or b"")["next_offset"]
                continue
            dataset, stats_key = account
            if stats_key != self.judge(dataset).stats_key or (partition, dataset) in kept:
                problems.append(f"{dataset} has statistics under the unknown key {stats_key}")
            kept[partition, dataset] = RunningStats.restore(json.loads(value or b""))
        ends = {partition: end for partition, end in logs.sentences.ends.items() if end}
        if positions != ends:
            problems.append(f"the positions in the state are {positions} and the input ends at {ends}")
        wanted, sentences = self._batch_pass(seen)
        for partition, dataset in sorted(wanted.keys() | kept.keys()):
            found = kept.get((partition, dataset), self.judge(dataset).empty())
            right = wanted.get((partition, dataset), ClassStats.empty(found.n_classes))
            if found.total() != right:
                problems.append(
                    f"partition {partition}, {dataset}: {found.total()} learned where one pass gives {right}"
                )
            number = sentences[partition, dataset]
            if found.histogram.total != number:
                problems.append(f"partition {partition}, {dataset}: {found.histogram.total} of {number} sentences")
        for dataset in sorted({name for _, name in wanted}):
            if _merged(dataset, {place: stats.total() for place, stats in kept.items()}) != _merged(dataset, wanted):
                problems.append(f"{dataset}: the sums over all partitions are not those of one pass")

    def _batch_pass(
        self, seen: Mapping[Place, Observation | None]
    ) -> tuple[dict[tuple[int, str], ClassStats], Counter[tuple[int, str]]]:
        together: defaultdict[tuple[int, str], list[Observation]] = defaultdict(list)
        for (partition, _), one in seen.items():
            if one is not None and len(one.given):
                together[partition, one.sentence.dataset].append(one)
        sums = {
            place: ClassStats.empty(len(self.judge(place[1]).classes)).update(
                np.concatenate([one.probs for one in observed]), np.concatenate([one.given for one in observed])
            )
            for place, observed in together.items()
        }
        return sums, Counter({place: len(observed) for place, observed in together.items()})


def _merged(dataset: str, sums: Mapping[tuple[int, str], ClassStats]) -> ClassStats | None:
    total: ClassStats | None = None
    for (_, name), stats in sums.items():
        if name == dataset:
            total = stats if total is None else total.merge(stats)
    return total


def _exactly_once(topic: str, found: Iterable[Place], wanted: Iterable[Place], problems: Problems) -> None:
    counts, must = Counter(found), set(wanted)
    problems.of(f"{topic} holds more than once", sorted(place for place, n in counts.items() if n > 1))
    problems.of(f"{topic} lacks", sorted(must - counts.keys()))
    problems.of(f"{topic} holds what does not belong there", sorted(counts.keys() - must))


def _origin(letter: Message) -> Place:
    headers = dict(letter.headers)
    return int(headers[f"{ERRORS}partition"]), int(headers[f"{ERRORS}offset"])


def _position(message: Message) -> Place:
    position = json.loads(message.value or b"")["position"]
    return position["partition"], position["offset"]


def _share(name: str) -> float:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64


# -- how long partitions stood still -----------------------------------------------------------------------------------


class Standstill(NamedTuple):
    seconds: float
    partition: int
    since: datetime


def longest_standstill(
    sentences: Topic, positions: Mapping[int, Sequence[tuple[int, int]]], away: Sequence[tuple[int, int]] = ()
) -> Standstill:
    """The longest time in which a partition had messages to read and none was committed, once it had begun.

    `positions` are (milliseconds, next offset), in order; `away` is when there was no broker at all, which is not counted.
    """
    arrived = {message.place: message.timestamp_ms for message in sentences.messages}
    longest = (0, 0, 0)
    for partition, steps in positions.items():
        for (before, offset), (now, _) in pairwise(steps):
            since = max(before, arrived.get((partition, offset), now))
            nobody = sum(max(0, min(now, end) - max(since, start)) for start, end in away)
            longest = max(longest, (now - since - nobody, partition, since))
    waited, partition, since = longest
    return Standstill(waited / 1000, partition, datetime.fromtimestamp(since / 1000, UTC))
