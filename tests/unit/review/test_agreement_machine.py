"""Agreement counts what reviewers answered before they saw each other's decisions, whatever they do afterwards.

Reviewers decide, change, withdraw and settle, as the API lets them, on a queue that may be behind. The machine remembers what
everybody had answered when the queue first showed the decisions of an item.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from service.contracts import Decision
from service.errors import ConflictError, InvalidInput
from service.review.decisions import check_decision
from service.review.messages import build_decision_message
from service.review.queue.queue import ReviewQueue
from service.review.settlement import check_reviewer, select_independent
from tests.support.review_queue import (
    NOW,
    TOPICS,
    MemoryLog,
    QueueHarness,
    dump_queue,
    make_assessment,
    make_review_output,
    make_settings_output,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

IDS = ("a", "b")
REVIEWERS = ("ann", "bob", "cyd", "dan")
GIVEN = ("O", "B-PER", "O")
CORRECTIONS = (None, ("O", "B-LOC", "O"), ("O", "O", "O"))
Answers = dict[str, tuple[str, ...] | None]

ids = st.sampled_from(("a", "a", "a", "b"))
reviewers = st.sampled_from(REVIEWERS)


class AgreementMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = MemoryLog()
        self.harness = QueueHarness(self.log, ReviewQueue(":memory:"))
        self.revisions = dict.fromkeys(IDS, 0)
        self.first_shown: dict[tuple[str, int], Answers] = {}
        self.is_read = True

    def teardown(self) -> None:
        self.harness.close()

    @initialize(overlap=st.integers(2, 3))
    def start(self, overlap: int) -> None:
        self.log.append([make_settings_output(name="default", overlap=overlap, version=1)])
        self.log.append([make_review_output(make_assessment(sentence_id)) for sentence_id in IDS])
        self.read()

    # -- what reviewers do -----------------------------------------------------------------------------------------

    @rule(
        sentence_id=ids,
        reviewer=reviewers,
        verdict=st.sampled_from(("error", "error", "ok", "unsure")),
        labels=st.sampled_from(CORRECTIONS),
        withdrawn=st.sampled_from((False, False, False, True)),
        adjudication=st.sampled_from((False, False, False, True)),
    )
    def decide(
        self,
        *,
        sentence_id: str,
        reviewer: str,
        verdict: str,
        labels: tuple[str, ...] | None,
        withdrawn: bool,
        adjudication: bool,
    ) -> None:
        item = self.harness.queue.get_item("default", sentence_id, viewer=reviewer, now=NOW)
        assert item is not None
        decision = Decision.model_validate(
            {
                "id": sentence_id,
                "revision": item.revision,
                "reviewer": reviewer,
                "verdict": verdict,
                "labels": labels if verdict == "error" else None,
                "withdrawn": withdrawn,
                "adjudication": adjudication,
                "blind_answer": {"verdict": "ok"},  # nobody chooses it
            }
        )
        try:
            decision = check_decision(item, decision, now=NOW)
            check_reviewer(item, decision)
        except (ConflictError, InvalidInput):
            return
        self.log.append([build_decision_message(TOPICS, decision)])
        self.is_read = False

    @rule(sentence_id=ids)
    def annotate_again(self, sentence_id: str) -> None:
        self.revisions[sentence_id] += 1
        self.log.append([make_review_output(make_assessment(sentence_id, revision=self.revisions[sentence_id]))])
        self.read()

    @rule()
    def read(self) -> None:
        self.harness.catch_up()
        self.is_read = True
        for sentence_id in IDS:
            item = self.harness.queue.get_item("default", sentence_id, now=NOW)
            assert item is not None
            shown = select_independent(item.decisions)
            if shown:
                answers = {each.reviewer: get_answer(each) for each in shown}
                self.first_shown.setdefault((sentence_id, item.revision), answers)

    # -- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def the_answers_are_those_that_were_first_shown(self) -> None:
        if self.is_read:
            for sentence_id in IDS:
                revision = self.revisions[sentence_id]
                expected = self.first_shown.get((sentence_id, revision), {})
                assert read_answers(self.harness.queue, sentence_id, revision) == expected

    @rule(seed=st.integers(0, 20), batch_size=st.integers(1, 7), compacted=st.booleans())
    def rebuild(self, seed: int, batch_size: int, compacted: bool) -> None:
        self.read()
        reader = self.log.reader(seed=seed, most=batch_size, compacted=compacted)
        rebuilt = QueueHarness(reader, ReviewQueue(":memory:"))
        try:
            rebuilt.catch_up()
            assert dump_queue(rebuilt.queue) == dump_queue(self.harness.queue)
        finally:
            rebuilt.close()


def get_answer(decision: Decision) -> tuple[str, ...] | None:
    return GIVEN if decision.verdict == "ok" else decision.labels


def read_answers(queue: ReviewQueue, sentence_id: str, revision: int) -> Mapping[str, tuple[str, ...] | None]:
    query = "SELECT reviewer, labels FROM answers WHERE id = ? AND revision = ?"
    with queue.file.read_transaction() as db:
        rows = db.execute(query, (sentence_id, revision)).fetchall()
    return {reviewer: None if labels is None else tuple(json.loads(labels)) for reviewer, labels in rows}


TestAgreementMachine = AgreementMachine.TestCase
TestAgreementMachine.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
