"""Checks the content of the topics after a chaos run, and lists the problems.

The workers publish every assessment to the scores topic too. So the checks know the assessment of each sentence, and
what the review topic must contain.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from service.contracts import DatasetSettings, read_sentence
from service.inference.classifier import WordProbs
from service.judging.judge import Judge
from service.labels import get_entity_type
from service.scoring.confident import UNREACHABLE_THRESHOLD, flag_words
from service.scoring.flat import drop_columns
from service.statistics.arrivals import ArrivalCounts
from service.statistics.batches import DatasetBatches
from service.statistics.running import RunningStats
from service.stream.state.memories import MemoryDraft, MemoryRecord
from service.stream.state.reader import read_state_record
from service.stream.state.snapshot import StatsKey
from tests.chaos.annotator_checks import ARRIVED_AT, check_annotators
from tests.chaos.messages import CHANGED_DATASETS, DATASETS, MAX_WORDS, SERIAL, GeneratedMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.inference.classifier import Classifier
    from service.judging.types import Observation
    from service.statistics.class_stats import ClassStats
    from service.statistics.memory.memory import Memory
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
    """Descriptions of problems. Of many problems of one kind it shows the first few."""

    def add_group(self, problem: str, items: Iterable[object]) -> None:
        affected = list(items)
        if affected:
            more = f" and {len(affected) - MAX_SHOWN} more" if len(affected) > MAX_SHOWN else ""
            self.append(f"{problem}: {', '.join(map(str, affected[:MAX_SHOWN]))}{more}")


class TopicChecker:
    """Compares the topics with what was sent, in one pass of the model over all messages."""

    def __init__(
        self,
        classifier: Classifier,
        named: Mapping[str, Classifier],
        *,
        min_words: int,
        prior_words: int,
        annotators: bool = True,
    ) -> None:
        """`named`: the models of the registry, beside the default model.

        `annotators`: whether every worker knew the sums of annotators; those of an earlier version may not.
        """
        self._annotators = annotators
        self._classifiers: dict[str | None, Classifier] = {None: classifier}
        self._classifiers.update(named)
        self._min_words, self._prior_words = min_words, prior_words
        self._judges = {settings.name: self._build_judge(settings) for settings in DATASETS}
        self._versions = {(each.name, each.version): self._build_judge(each) for each in (*DATASETS, *CHANGED_DATASETS)}

    def check(self, dumps: TopicDumps, sent: Mapping[int, GeneratedMessage], acknowledged: Iterable[int]) -> list[str]:
        problems = ProblemList()
        inputs = {message.partition_offset: message for message in dumps.sentences.messages}
        serials = {position: int(dict(message.headers)[SERIAL]) for position, message in inputs.items()}
        problems.add_group(
            "acknowledged messages are not in the input", sorted(set(acknowledged) - set(serials.values()))
        )
        stages = {position: stage for position, serial in serials.items() if (stage := sent[serial].stage)}
        self._check_dead_letters(dumps.dead_letters, inputs, stages, problems)
        observations = self._observe_all(inputs[position] for position in inputs if position not in stages)
        valid = {position: inputs[position] for position in observations}
        self._check_assessments(dumps, valid, observations, problems)
        self._check_state(dumps, observations, problems)
        if self._annotators:
            problems += check_annotators(dumps.state, observations, self.get_judge)
        return problems

    def _get_version(self, dataset: str, version: int) -> Judge:
        """The judge with the settings that the worker had at that moment."""
        return self._versions.get((dataset, version), self.get_judge(dataset))

    def get_judge(self, dataset: str) -> Judge:
        if dataset not in self._judges:
            self._judges[dataset] = self._build_judge(DatasetSettings(name=dataset))
        return self._judges[dataset]

    def _build_judge(self, settings: DatasetSettings) -> Judge:
        folder = self._classifiers[settings.model].folder
        return Judge(folder, settings, min_words=self._min_words, prior_words=self._prior_words)

    def _observe_all(self, messages: Iterable[ConsumedMessage]) -> dict[PartitionOffset, Observation | None]:
        """Observes every valid sentence. A deletion has no observation."""
        sentences = {
            message.partition_offset: read_sentence(message.value or b"", max_words=MAX_WORDS) for message in messages
        }
        observations: dict[PartitionOffset, Observation | None] = dict.fromkeys(sentences)
        for model, classifier in self._classifiers.items():
            positions = [
                position
                for position, sentence in sentences.items()
                if not sentence.deleted and self.get_judge(sentence.dataset).settings.model == model
            ]
            inferred = classifier.infer([sentences[position].tokens for position in positions])
            for position, words in zip(positions, inferred, strict=True):
                assert isinstance(words, WordProbs)
                sentence = sentences[position]
                observations[position] = self.get_judge(sentence.dataset).observe(sentence, words)
        return observations

    # -- outputs ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _check_dead_letters(
        topic: TopicDump,
        inputs: Mapping[PartitionOffset, ConsumedMessage],
        stages: Mapping[PartitionOffset, str],
        problems: ProblemList,
    ) -> None:
        letters = [(_read_origin(letter), letter) for letter in topic.messages]
        _check_exactly_once("dead letters", (position for position, _ in letters), stages, problems)
        for position, letter in letters:
            if position not in stages:
                continue
            original = inputs[position]
            headers = letter.headers[: len(original.headers)]
            if (letter.key, letter.value, headers) != (original.key, original.value, original.headers):
                problems.append(f"the dead letter of {position} is not its message byte for byte")
            stage = dict(letter.headers)[f"{ERROR_HEADER_PREFIX}stage"].decode()
            if stage != stages[position]:
                problems.append(f"the dead letter of {position} says {stage} instead of {stages[position]}")

    def _check_assessments(
        self,
        dumps: TopicDumps,
        valid: Mapping[PartitionOffset, ConsumedMessage],
        observations: Mapping[PartitionOffset, Observation | None],
        problems: ProblemList,
    ) -> None:
        scored = [(_read_position(message), message) for message in dumps.scores.messages]
        _check_exactly_once("scores", (position for position, _ in scored), valid, problems)
        scores = dict(scored)
        expected_in_review = []
        for position, message in scores.items():
            if position in valid:
                assessment = json.loads(message.value or b"")
                if assessment["reason"] != "scored":
                    expected_in_review.append(position)
                differences = self._reassess(valid[position], assessment, observations[position])
                problems.extend(f"{position}: {difference}" for difference in differences)
        reviewed = [(_read_position(message), message) for message in dumps.review.messages]
        _check_exactly_once("review", (position for position, _ in reviewed), expected_in_review, problems)
        problems.add_group(
            "review and scores differ for",
            [
                position
                for position, message in reviewed
                if position in scores and (message.key, message.value) != (scores[position].key, scores[position].value)
            ],
        )

    def _reassess(
        self, message: ConsumedMessage, assessment: dict[str, Any], observation: Observation | None
    ) -> Iterable[str]:
        """The tokens, labels and thresholds of an assessment must give its flags, and the flags its reason."""
        sent = json.loads(message.value or b"")
        identity = sent.get("id") or f"{message.topic}-{message.partition}-{message.offset}"
        dataset = sent.get("dataset", "default")
        if (assessment["id"], assessment["dataset"]) != (identity, dataset):
            yield f"it is assessed as {assessment['dataset']}/{assessment['id']} and is {dataset}/{identity}"
        for field in ("tokens", "labels"):
            if assessment[field] != sent.get(field, []):
                yield f"its assessment has other {field}"
        if observation is None:
            if assessment["reason"] != "deleted":
                yield f"it is deleted, and its assessment says {assessment['reason']}"
            return
        judge = self.get_judge(dataset)
        published = (assessment["thresholds"].get(name) for name in judge.classes)
        # A class without a threshold has too little evidence.
        thresholds = np.array([UNREACHABLE_THRESHOLD if value is None else value for value in published])
        unused = [k for k, name in enumerate(judge.classes) if get_entity_type(name) in assessment["unused_types"]]
        probs = drop_columns(observation.probs, unused) if unused else observation.probs
        flagged = observation.word_index[flag_words(probs, observation.given, thresholds)].tolist()
        if [flag["index"] for flag in assessment["flags"]] != flagged:
            yield f"judged again, the words {flagged} are flagged; its assessment says {assessment['flags']}"
        settings = self._get_version(dataset, assessment["settings_version"]).settings
        if settings.version != assessment["settings_version"]:
            yield f"it is judged with version {assessment['settings_version']} of the settings, which was never sent"
        control = _hash_to_share(f"{dataset}/{identity}") < settings.control_share
        reason = "flagged" if flagged else "update" if sent.get("update") else "control" if control else "scored"
        if assessment["reason"] != reason:
            yield f"its assessment says {assessment['reason']} and must say {reason}"

    # -- state -----------------------------------------------------------------------------------------------------

    def _check_state(
        self, dumps: TopicDumps, observations: Mapping[PartitionOffset, Observation | None], problems: ProblemList
    ) -> None:
        positions: dict[int, int] = {}
        learned: dict[tuple[int, str], RunningStats] = {}
        memories = MemoryDraft({})
        for (state_partition, key), value in dumps.state.compact().items():
            kind, partition, *account = json.loads(key or b"")
            if partition != state_partition:
                problems.append(f"partition {state_partition} of the state topic holds state of partition {partition}")
            if kind == "position":
                positions[partition] = json.loads(value or b"")["next_offset"]
                continue
            if kind == "annotator":
                continue  # see annotator_checks
            if kind == "memory":
                record = read_state_record("the state topic", key, value)
                assert isinstance(record, MemoryRecord)
                memories.apply(record)
                continue
            if kind == "batches":
                DatasetBatches.restore(json.loads(value or b""))
                continue
            if kind == "arrivals":
                waiting = ArrivalCounts.restore(json.loads(value or b"")).waiting
                if waiting:
                    problems.append(f"partition {partition}: {waiting} sentences of {account[0]} wait, though it fits")
                continue
            dataset, stats_key = account
            if stats_key != self.get_judge(dataset).stats_key or (partition, dataset) in learned:
                problems.append(f"{dataset} has statistics under the unknown key {stats_key}")
            learned[partition, dataset] = RunningStats.restore(json.loads(value or b""))
        ends = {partition: end for partition, end in dumps.sentences.end_offsets.items() if end}
        if positions != ends:
            problems.append(f"the positions in the state are {positions} and the input ends at {ends}")
        versions = {
            _read_position(message): int(json.loads(message.value or b"")["settings_version"])
            for message in dumps.scores.messages
        }
        self._compare_state(learned, memories, self._learn_by_partition(observations, versions), problems)

    def _compare_state(
        self,
        learned: Mapping[tuple[int, str], RunningStats],
        memories: MemoryDraft,
        one_pass: Mapping[tuple[int, str], OnePassState],
        problems: ProblemList,
    ) -> None:
        for partition, dataset in sorted(one_pass.keys() | learned.keys()):
            stats = learned.get((partition, dataset), self.get_judge(dataset).create_empty_stats())
            sums, memory, count = one_pass.get(
                (partition, dataset), OnePassState(RunningStats.empty(stats.n_classes), None, 0)
            )
            window = self._get_window(dataset)
            if stats.get_total(window) != sums.get_total(window):
                problems.append(
                    f"partition {partition}, {dataset}: the workers learned {stats.get_total(window)}, one pass gives"
                    f" {sums.get_total(window)}"
                )
            problems.add_group(
                f"partition {partition}, {dataset}: not those of one pass are the days",
                [day for day, bucket in stats.buckets.items() if sums.buckets.get(day) != bucket],
            )
            if stats.histogram.total != count:
                problems.append(f"partition {partition}, {dataset}: {stats.histogram.total} of {count} sentences")
            if memories.get_tables(partition, StatsKey.from_judge(self.get_judge(dataset))) != memory:
                problems.append(f"partition {partition}, {dataset}: the memory is not that of one pass")
        expected = {key: state.sums for key, state in one_pass.items()}
        for dataset in sorted({name for _, name in expected}):
            window = self._get_window(dataset)
            if _merge_stats(dataset, learned, window) != _merge_stats(dataset, expected, window):
                problems.append(f"{dataset}: the sums over all partitions are not those of one pass")

    def _get_window(self, dataset: str) -> int | None:
        """The days that every version of the settings keeps."""
        versions = [judge.settings.forget_after_days for (name, _), judge in self._versions.items() if name == dataset]
        return min((days for days in versions if days is not None), default=None)

    def _learn_by_partition(
        self, observations: Mapping[PartitionOffset, Observation | None], versions: Mapping[PartitionOffset, int]
    ) -> dict[tuple[int, str], OnePassState]:
        """One pass over each partition, in the order of its offsets. It forgets no day.

        `versions`: of the settings, as the workers had them. A change reaches each worker at another message.
        """
        learned: dict[tuple[int, str], OnePassState] = {}
        for (partition, offset), observation in sorted(observations.items(), key=itemgetter(0)):
            if observation is not None and len(observation.given):
                judge = self._get_version(observation.sentence.dataset, versions.get((partition, offset), 0))
                key = partition, observation.sentence.dataset
                state = learned.setdefault(key, OnePassState(RunningStats.empty(len(judge.classes)), None, 0))
                memory = judge.memory.prepare(state.memory, observation.sentence, ARRIVED_AT)
                evidence = None if memory is None else judge.memory.gather(observation, [memory])
                smoothed = None if evidence is None else evidence.smoothed
                sums = judge.learn(observation, state.sums, arrived_at=ARRIVED_AT, smoothed=smoothed)
                if memory is not None and evidence is not None:
                    evidence.teach(memory, judge.memory.types)
                learned[key] = OnePassState(sums, memory, state.sentences + 1)
        return learned


class OnePassState(NamedTuple):
    """What one pass over a partition learns of a dataset."""

    sums: RunningStats
    memory: Memory | None
    sentences: int


def _merge_stats(
    dataset: str, stats: Mapping[tuple[int, str], RunningStats], window_days: int | None
) -> ClassStats | None:
    shares = [each for (_, name), each in stats.items() if name == dataset]
    return reduce(RunningStats.merge, shares).get_total(window_days) if shares else None


def _check_exactly_once(
    topic: str, actual: Iterable[PartitionOffset], expected: Iterable[PartitionOffset], problems: ProblemList
) -> None:
    counts, required = Counter(actual), set(expected)
    problems.add_group(
        f"{topic} contains more than once", sorted(position for position, count in counts.items() if count > 1)
    )
    problems.add_group(f"{topic} lacks", sorted(required - counts.keys()))
    problems.add_group(f"{topic} contains by mistake", sorted(counts.keys() - required))


def _read_origin(letter: ConsumedMessage) -> PartitionOffset:
    headers = dict(letter.headers)
    return int(headers[f"{ERROR_HEADER_PREFIX}partition"]), int(headers[f"{ERROR_HEADER_PREFIX}offset"])


def _read_position(message: ConsumedMessage) -> PartitionOffset:
    position = json.loads(message.value or b"")["position"]
    return position["partition"], position["offset"]


def _hash_to_share(name: str) -> float:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64


# -- stalls -----------------------------------------------------------------------------------


class Stall(NamedTuple):
    seconds: float
    partition: int
    since: datetime


def find_longest_stall(
    sentences: TopicDump, positions: Mapping[int, Sequence[tuple[int, int]]], outages: Sequence[tuple[int, int]] = ()
) -> Stall:
    """Finds the longest time in which a partition had messages to read and no commit, after its first commit.

    `positions` are (milliseconds, next offset), in order. `outages` are times without any broker; they do not count.
    """
    arrived = {message.partition_offset: message.timestamp_ms for message in sentences.messages}
    longest = (0, 0, 0)
    for partition, steps in positions.items():
        for (before, offset), (now, _) in pairwise(steps):
            since = max(before, arrived.get((partition, offset), now))
            outage_ms = sum(max(0, min(now, end) - max(since, start)) for start, end in outages)
            longest = max(longest, (now - since - outage_ms, partition, since))
    stalled_ms, partition, since = longest
    return Stall(stalled_ms / 1000, partition, datetime.fromtimestamp(since / 1000, UTC))
