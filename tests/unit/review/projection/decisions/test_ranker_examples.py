"""The examples of the ranker: each fit equals one of all decisions, and most decisions need none."""

from __future__ import annotations

import numpy as np
import pytest

from service.review.projection.decisions.outcomes import RankerExample
from service.review.projection.decisions.ranker_examples import RankerExamples
from service.review.ranker import Ranker, ReviewedWords, WordKind


def make_example(decided_at: float, *, epoch: int = 0, wrong: bool = True) -> RankerExample:
    kinds = (WordKind("PER", "ORG"), WordKind("O"))
    return RankerExample(epoch, decided_at, ReviewedWords(kinds, (decided_at % 3, -1.0), (wrong, False)))


def fit_all(examples: dict[str, dict[str, RankerExample]], epoch: int) -> Ranker:
    ordered = sorted(
        ((each.decided_at, sentence, reviewer), each.words)
        for sentence, by_reviewer in examples.items()
        for reviewer, each in by_reviewer.items()
        if each.epoch == epoch
    )
    return Ranker.refit([words for _, words in ordered])


@pytest.mark.parametrize("seed", range(4))
def test_every_fit_equals_one_of_all_decisions(seed: int) -> None:
    random = np.random.default_rng(seed)
    kept, examples = RankerExamples(), dict[str, dict[str, RankerExample]]()
    epoch = 0
    for step in range(300):
        sentence = f"s{random.integers(0, 80)}"
        reviewers = [name for name in ("ann", "bob") if random.random() < 0.6]
        examples[sentence] = {
            name: make_example(
                float(random.integers(0, 50)), epoch=int(random.integers(0, 2)), wrong=random.random() < 0.5
            )
            for name in reviewers
        }
        kept.put(sentence, examples[sentence])
        epoch = 1 - epoch if step % 60 == 59 else epoch
        assert kept.fit(epoch) == fit_all(examples, epoch), step


def test_a_decision_that_waits_for_the_next_step_needs_no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = RankerExamples()
    for number in range(25):
        kept.put(f"s{number}", {"ann": make_example(float(number))})
    first = kept.fit(0)
    assert first.decisions == 25
    monkeypatch.setattr(Ranker, "refit", lambda _: pytest.fail("it was fitted again"))
    assert kept.put("late", {"ann": make_example(99.0)})
    assert kept.fit(0) is first
    assert not kept.put("late", {"ann": make_example(99.0)})


def test_a_change_among_the_decisions_in_use_needs_a_fit() -> None:
    kept = RankerExamples()
    for number in range(27):
        kept.put(f"s{number}", {"ann": make_example(float(number))})
    first = kept.fit(0)
    kept.put("s3", {"ann": make_example(3.0, wrong=False)})
    assert kept.fit(0) != first
    kept.put("s3", {})
    assert kept.fit(0).decisions == 25
    kept.put("s4", {})
    kept.put("s5", {})
    assert kept.fit(0) == Ranker()
