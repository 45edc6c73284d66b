"""A worker counts the sentences that the model flags, and every reader of the state finds the same misfit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.judging.misfit import MAX_FLAGGED_SHARE, MIN_MISFIT_SENTENCES, Misfit
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.stream.state.view import StateView
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.statistics.arrivals import FlagCounts

TOPICS = Topics()


@pytest.fixture
def harness(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), capfd=capfd)


def judge_sentences(harness: CommandHarness, n: int, *settings: str) -> None:
    if settings:
        assert harness.run("datasets", "set", "default", *settings).code == 0
    assert harness.run("send", harness.write_file(make_sentences(n))).code == 0
    assert harness.run("worker", "--once").code == 0


def read_flags(harness: CommandHarness) -> tuple[list[FlagCounts], Misfit | None]:
    """The counts by stats key, and the misfit that the API would show."""
    log = SqliteLog(harness.log_path, TOPICS)
    models = make_pool(Classifier(ModelFolder.load(harness.model)))
    view = StateView(log, TOPICS, DatasetRegistry(models, min_words=1, prior_words=0))
    while view.step():
        pass
    flags, misfit = view.snapshot.get_arrivals("default").total.flags, view.find_misfit("default")
    assert view.list_misfits() == ({} if misfit is None else {"default": misfit})
    view.close()
    log.close()
    return list(flags.values()), misfit


@pytest.mark.parametrize("policy", ["flag_policy=confident", 'flag_policy={"kind": "budget", "share": 0.01}'])
def test_sentences_count_by_their_flags_whatever_goes_to_review(harness: CommandHarness, policy: str) -> None:
    """An untrained model disagrees with most labels."""
    judge_sentences(harness, 80, "control_share=1", policy)
    flagged = sum(bool(assessment.flags) for assessment in harness.read_assessments())
    assert flagged > MAX_FLAGGED_SHARE * 80
    [counts], misfit = read_flags(harness)
    assert counts == (80, flagged)
    assert misfit is not None
    assert misfit.counts == counts


def test_other_statistics_start_the_count_anew(harness: CommandHarness) -> None:
    judge_sentences(harness, 80)
    assert read_flags(harness)[1] is not None
    assert harness.run("thresholds", "reset", "default", "--yes").code == 0
    assert read_flags(harness)[1] is None
    judge_sentences(harness, MIN_MISFIT_SENTENCES - 1)
    [counts], misfit = read_flags(harness)
    assert (counts.sentences, misfit) == (MIN_MISFIT_SENTENCES - 1, None)
