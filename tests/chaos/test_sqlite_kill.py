"""The embedded log through kill -9: real workers die at random instants while another process appends.

Afterwards everything must be as one undisturbed pass leaves it. A short run is part of the tests; a long one is
CHAOS_RUNS=50 CHAOS_SEED=1000 python -m pytest tests/chaos/test_sqlite_kill.py -s
"""

from __future__ import annotations

import os
import random
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from service.cli.stream.dead_letters import DeadLetter
from service.contracts import Assessment, DatasetSettings, read_sentence
from service.errors import InvalidInput
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.log.codec import parse_position, to_position_key, to_position_value
from service.log.protocol import Output
from service.log.sqlite.database import PARTITION
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.stream.state.reader import read_state
from service.stream.state.snapshot import StatsKey
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from service.log.protocol import Record
    from service.statistics.running import RunningStats

TOPICS = Topics()
RUNS = int(os.environ.get("CHAOS_RUNS", "2"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
KILLS = 4
FILES = 3
PER_FILE = 250
PATIENCE = 600.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("chaos") / "model", "wordpiece")


@dataclass
class Expected:
    """What one undisturbed pass over the input gives."""

    totals: dict[StatsKey, RunningStats] = field(default_factory=dict)
    review: list[Assessment] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)


def one_pass(model: Path, records: list[Record]) -> Expected:
    folder = ModelFolder.load(model)
    classifier = Classifier(folder)
    judges: dict[str, Judge] = {}
    found = Expected()
    for record in records:
        try:
            sentence = read_sentence(record.value or b"")
            judge = judges.setdefault(
                sentence.dataset, Judge(folder, DatasetSettings(name=sentence.dataset), min_words=1)
            )
            [words] = classifier.infer([sentence.tokens])
            assert isinstance(words, WordProbs)
            seen = judge.observe(sentence, words)
        except InvalidInput:
            found.dead.append(record.offset)
            continue
        account = StatsKey(sentence.dataset, judge.stats_key)
        stats = found.totals.get(account, judge.create_empty_stats())
        said = judge.assess(seen, judge.build_threshold_set(stats))
        found.totals[account] = judge.learn(seen, stats, priority=said.priority)
        if said.reason != "scored":
            found.review.append(said)
    return found


def files(desk: CommandHarness, rng: random.Random) -> list[Path]:
    """Two datasets, some updates, and messages that no worker can assess."""
    made = []
    for number in range(FILES):
        content = make_sentences(PER_FILE, seed=number)
        for one in content:
            one["dataset"] = rng.choice(["news", "sport"])
            one["update"] = rng.random() < 0.05
            if rng.random() < 0.02:
                one["labels"] = ["B-GHOST"] * len(one["labels"])  # type: ignore[arg-type]
        made.append(desk.write_file(content, f"{number}.jsonl"))
    return made


class Watcher:
    """Sees from outside how far the worker is."""

    def __init__(self, desk: CommandHarness) -> None:
        self._stream = SqliteLog(desk.log_path, TOPICS)

    def position(self) -> int:
        kept = {record.key: record.value for record in self._stream.read(TOPICS.state, 0, 1_000)}
        return parse_position(kept.get(to_position_key(PARTITION)) or to_position_value(0))

    def end(self) -> int:
        return self._stream.read(TOPICS.sentences, 0, 1_000_000)[-1].offset + 1

    def close(self) -> None:
        self._stream.close()


def kill_at_a_random_instant(worker: subprocess.Popen[str], log: Watcher, rng: random.Random) -> tuple[bool, bool]:
    """While it starts, or in the midst of its work; says whether it had work, and whether it had done some."""
    before = log.position()
    if rng.random() < 0.25:
        time.sleep(rng.uniform(0, 1.5))
    else:
        until = time.monotonic() + PATIENCE
        while log.position() == before:
            assert worker.poll() is None, worker.communicate()
            assert time.monotonic() < until
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
    worker.kill()
    worker.communicate()
    after = log.position()
    return after < log.end(), after > before


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_kill_9_loses_and_repeats_nothing(seed: int, tmp_path: Path, model: Path) -> None:
    rng = random.Random(seed)
    desk = CommandHarness(tmp_path, model)
    waiting = files(desk, rng)
    sent = done(desk.start("send", waiting.pop(0)))
    assert sent.startswith(f"{PER_FILE} sentences sent to labelwatch.sentences in ")
    interrupted = worked = 0
    with closing(Watcher(desk)) as log:
        for _ in range(KILLS):
            senders = [desk.start("send", waiting.pop(0))] if waiting else []
            worker = desk.start("worker", LABELWATCH_WORKER_BATCH_RECORDS=str(rng.choice([2, 8, 32])))
            had_work, had_done = kill_at_a_random_instant(worker, log, rng)
            interrupted += had_work
            worked += had_done
            assert [done(sender) for sender in senders] == [sent] * len(senders)
    done(desk.start("worker", "--once"))
    print(f"seed {seed}: {KILLS} kills, {worked} after work was done, {interrupted} with work left")
    assert interrupted
    assert worked
    check(desk, model, FILES * PER_FILE)


def done(process: subprocess.Popen[str]) -> str:
    """What it said, if it ended well."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def check(desk: CommandHarness, model: Path, sent: int) -> None:
    records = desk.read_records(TOPICS.sentences)
    assert len(records) == sent
    assert len({record.key for record in records}) == len(records)
    expected = one_pass(model, records)
    with closing(SqliteLog(desk.log_path, TOPICS)) as stream:
        kept = read_state(stream, TOPICS)
    assert kept.positions == {PARTITION: len(records)}
    assert kept.snapshot.keys == set(expected.totals)
    for key, total in expected.totals.items():
        assert kept.snapshot.get_total(key, total.keep_days) == total
    # Each write takes an offset: none is missing, so none was overwritten by a second one of its key.
    review = desk.read_records(TOPICS.review)
    assert [record.offset for record in review] == list(range(len(expected.review)))
    for said, wanted in zip(desk.read_assessments(), expected.review, strict=True):
        published = {"position", "scored_at", "request_id"}
        assert said.model_dump(exclude=published) == wanted.model_dump(exclude=published)
    letters = [DeadLetter(record) for record in desk.read_records(TOPICS.dead_letters)]
    assert [letter.origin for letter in letters] == [f"{TOPICS.sentences}-0-{offset}" for offset in expected.dead]
    assert {letter.stage for letter in letters} == {"labels"}


@pytest.mark.parametrize("back", [1, 5])
def test_a_batch_that_is_worked_on_twice_would_be_noticed(
    back: int, tmp_path: Path, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    desk = CommandHarness(tmp_path, model, capfd=capfd)
    content = [*make_sentences(19), {"id": "ghost", "tokens": ["a"], "labels": ["B-GHOST"]}]
    desk.run("send", desk.write_file(content))
    desk.run("worker", "--once")
    check(desk, model, 20)
    desk.append(Output(TOPICS.state, to_position_key(PARTITION), to_position_value(20 - back)))
    desk.run("worker", "--once")
    with pytest.raises(AssertionError):
        check(desk, model, 20)
