"""The embedded log survives kill -9: real workers are killed at random moments while another process appends.

Afterwards the topics must equal those of one undisturbed pass. A short run is part of the tests. A long one is
CHAOS_RUNS=50 CHAOS_SEED=1000 python -m pytest tests/chaos/test_sqlite_kill.py -s
"""

from __future__ import annotations

import os
import random
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from service.contracts import Assessment, DatasetSettings, read_sentence
from service.errors import InvalidInput
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.log.codec import parse_position, to_position_key, to_position_value
from service.log.dead_letters import DeadLetter
from service.log.protocol import Output
from service.log.sqlite.database import PARTITION
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.stream.state.reader import read_state
from service.stream.state.snapshot import StatsKey
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.one_pass import OnePass
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from service.log.protocol import Record

TOPICS = Topics()
RUNS = int(os.environ.get("CHAOS_RUNS", "2"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
KILLS = 4
FILES = 3
PER_FILE = 250
TIMEOUT_S = 600.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("chaos") / "model", "wordpiece")


@dataclass
class Expected:
    """The result of one undisturbed pass over the input."""

    learned: dict[StatsKey, OnePass] = field(default_factory=dict)
    review: list[Assessment] = field(default_factory=list)
    dead_letter_offsets: list[int] = field(default_factory=list)


def run_one_pass(model: Path, records: list[Record]) -> Expected:
    folder = ModelFolder.load(model)
    classifier = Classifier(folder)
    judges: dict[str, Judge] = {}
    expected = Expected()
    for record in records:
        try:
            sentence = read_sentence(record.value or b"")
            judge = judges.setdefault(
                sentence.dataset, Judge(folder, DatasetSettings(name=sentence.dataset), min_words=1)
            )
            [words] = classifier.infer([sentence.tokens])
            assert isinstance(words, WordProbs)
            judge.observe(sentence, words)
        except InvalidInput:
            expected.dead_letter_offsets.append(record.offset)
            continue
        assessment = expected.learned.setdefault(StatsKey.from_judge(judge), OnePass(judge)).add(
            sentence, words, arrived_at=datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        )
        if assessment.reason != "scored":
            expected.review.append(assessment)
    return expected


def write_files(harness: CommandHarness, rng: random.Random) -> list[Path]:
    """Writes sentences of two datasets with some updates and some unknown labels."""
    paths = []
    for number in range(FILES):
        sentences = make_sentences(PER_FILE, seed=number)
        for sentence in sentences:
            sentence["dataset"] = rng.choice(["news", "sport"])
            sentence["update"] = rng.random() < 0.05
            sentence["annotator"] = rng.choice(["kim", "lee", None])
            if rng.random() < 0.02:
                sentence["labels"] = ["B-GHOST"] * len(sentence["labels"])  # type: ignore[arg-type]
        paths.append(harness.write_file(sentences, f"{number}.jsonl"))
    return paths


class ProgressMonitor:
    """Reads the position of the worker from the log."""

    def __init__(self, harness: CommandHarness) -> None:
        self._log = SqliteLog(harness.log_path, TOPICS)

    def read_position(self) -> int:
        state = {record.key: record.value for record in self._log.read(TOPICS.state, 0, 1_000)}
        return parse_position(state.get(to_position_key(PARTITION)) or to_position_value(0))

    def read_end(self) -> int:
        return self._log.read(TOPICS.sentences, 0, 1_000_000)[-1].offset + 1

    def close(self) -> None:
        self._log.close()


def kill_at_a_random_moment(
    worker: subprocess.Popen[str], progress: ProgressMonitor, rng: random.Random
) -> tuple[bool, bool]:
    """Kills a worker during its start or its work. Returns whether messages remain, and whether it has read any."""
    before = progress.read_position()
    if rng.random() < 0.25:
        time.sleep(rng.uniform(0, 1.5))
    else:
        deadline = time.monotonic() + TIMEOUT_S
        # If everything is read already, there is no progress to wait for: the worker dies during its start.
        while progress.read_position() == before < progress.read_end():
            assert worker.poll() is None, worker.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
    worker.kill()
    worker.communicate()
    after = progress.read_position()
    return after < progress.read_end(), after > before


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_kill_9_loses_and_repeats_nothing(seed: int, tmp_path: Path, model: Path) -> None:
    rng = random.Random(seed)
    harness = CommandHarness(tmp_path, model)
    waiting = write_files(harness, rng)
    sent = wait_for(harness.start("send", waiting.pop(0)))
    assert sent.startswith(f"{PER_FILE} sentences sent to labelwatch.sentences in ")
    interrupted = worked = 0
    with closing(ProgressMonitor(harness)) as progress:
        for _ in range(KILLS):
            senders = [harness.start("send", waiting.pop(0))] if waiting else []
            worker = harness.start("worker", LABELWATCH_WORKER_BATCH_RECORDS=str(rng.choice([2, 8, 32])))
            has_messages_left, has_read = kill_at_a_random_moment(worker, progress, rng)
            interrupted += has_messages_left
            worked += has_read
            assert [wait_for(sender) for sender in senders] == [sent] * len(senders)
    wait_for(harness.start("worker", "--once"))
    print(f"seed {seed}: {KILLS} kills, {worked} after a commit, {interrupted} with messages left")
    assert interrupted
    assert worked
    check(harness, model, FILES * PER_FILE)


def wait_for(process: subprocess.Popen[str]) -> str:
    """Returns the output of a process that must succeed."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    return out


def check(harness: CommandHarness, model: Path, sent: int) -> None:
    records = harness.read_records(TOPICS.sentences)
    assert len(records) == sent
    assert len({record.key for record in records}) == len(records)
    expected = run_one_pass(model, records)
    with closing(SqliteLog(harness.log_path, TOPICS)) as log:
        state = read_state(log, TOPICS)
    assert state.positions == {PARTITION: len(records)}
    assert state.snapshot.keys == set(expected.learned)
    for key, one_pass in expected.learned.items():
        assert state.snapshot.get_total(key, None) == one_pass.stats
        assert state.snapshot.memories[key][PARTITION].get_tables() == one_pass.memory
        assert state.snapshot.annotators.get(key, {}).get(PARTITION, {}) == one_pass.annotators
    # Every write takes an offset. None is missing, so compaction has not removed a duplicate.
    review = harness.read_records(TOPICS.review)
    assert [record.offset for record in review] == list(range(len(expected.review)))
    for assessment, expected_assessment in zip(harness.read_assessments(), expected.review, strict=True):
        published = {"position", "scored_at", "request_id"}
        assert assessment.model_dump(exclude=published) == expected_assessment.model_dump(exclude=published)
    letters = [DeadLetter(record) for record in harness.read_records(TOPICS.dead_letters)]
    assert [letter.origin for letter in letters] == [
        f"{TOPICS.sentences}-0-{offset}" for offset in expected.dead_letter_offsets
    ]
    assert {letter.stage for letter in letters} == {"labels"}


@pytest.mark.parametrize("back", [1, 5])
def test_the_check_finds_a_batch_that_was_processed_twice(
    back: int, tmp_path: Path, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    harness = CommandHarness(tmp_path, model, capfd=capfd)
    sentences = [*make_sentences(19), {"id": "ghost", "tokens": ["a"], "labels": ["B-GHOST"]}]
    harness.run("send", harness.write_file(sentences))
    harness.run("worker", "--once")
    check(harness, model, 20)
    harness.append(Output(TOPICS.state, to_position_key(PARTITION), to_position_value(20 - back)))
    harness.run("worker", "--once")
    with pytest.raises(AssertionError):
        check(harness, model, 20)
