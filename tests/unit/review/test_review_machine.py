"""Any order of settings, annotations, deletions, decisions, claims and tombstones: the queue is what the topics say.

A machine writes to the log and lets a queue read it in pieces. At any time a queue that is built again, with partitions
interleaved and batched in another way, must show the same, and so must the rules in memory.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from service.contracts import Claim, Decision
from service.log.protocol import Output
from service.review.messages import (
    build_claim_message,
    encode_adjudication_key,
    encode_claim_key,
    encode_decision_key,
    iterate_assessments,
    iterate_decisions,
)
from service.review.queue.queue import QueueFilter, ReviewQueue
from service.review.review_state import ReviewState
from tests.support.queue_scan import assert_summaries_are_scans
from tests.support.review_queue import (
    NOW,
    TOPICS,
    MemoryLog,
    QueueHarness,
    dump_queue,
    make_assessment,
    make_decision_output,
    make_review_output,
    make_settings_output,
    minutes_after_now,
)

IDS = ("a", "b", "c")
REVIEWERS = ("ann", "bob", "cyd")
GIVEN = ("O", "B-PER", "O")
CORRECTIONS = (None, ("O", "B-LOC", "O"), ("O", "O", "O"))
TASK_ID = "label-studio:task:7"

# Few keys, so that messages are often about the same item.
ids = st.sampled_from(("a", "a", "a", "b", "c"))
reviewers = st.sampled_from(REVIEWERS)
revisions = st.sampled_from((0, 0, 0, 0, 1, 2))


class ReviewMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = MemoryLog()
        self.harness = QueueHarness(self.log, ReviewQueue(":memory:"))
        self.version = 0
        self.overlap = 1
        self.is_read = True
        self.checked_version = 0

    def teardown(self) -> None:
        self.harness.close()

    # -- what producers and reviewers do -------------------------------------------------------------------------------

    @rule(overlap=st.integers(1, 3), control=st.sampled_from((0.0, 0.3)))
    def change_settings(self, overlap: int, control: float) -> None:
        self.version += 1
        self.overlap = overlap
        self.append(make_settings_output(name="default", overlap=overlap, control_share=control, version=self.version))

    @precondition(lambda self: self.version > 0)
    @rule()
    def delete_settings(self) -> None:
        self.overlap = 1
        self.version = 0
        self.append(Output(TOPICS.datasets, b"default", None))

    @rule(
        sentence_id=ids,
        revision=revisions,
        reason=st.sampled_from(("flagged", "flagged", "flagged", "control", "update", "deleted")),
        p=st.sampled_from((0.05, 0.2, 0.4)),
        task=st.booleans(),
        annotator=st.sampled_from((None, "zoe", "yan")),
        days=st.integers(0, 1),
    )
    def annotate(
        self, *, sentence_id: str, revision: int, reason: str, p: float, task: bool, annotator: str | None, days: int
    ) -> None:
        more: dict[str, Any] = {"annotator": annotator, "scored_at": minutes_after_now(24 * 60 * days)}
        if reason == "control":
            more["inclusion_probability"] = 0.3
        if task:
            more["meta"] = {"format": "label-studio", "task": "7"}
        assessment = make_assessment(
            sentence_id, p=(0.9, p, 0.8), revision=revision, reason=reason, update=reason == "update", **more
        )
        self.append(make_review_output(assessment))

    @rule(revision=revisions)
    def delete_task(self, revision: int) -> None:
        about = {"format": "label-studio", "task": "7"}
        self.append(make_review_output(make_assessment(TASK_ID, revision=revision, reason="deleted", meta=about)))

    @rule(sentence_id=ids)
    def erase(self, sentence_id: str) -> None:
        self.append(Output(TOPICS.review, f"default/{sentence_id}".encode(), None))

    @rule(
        sentence_id=ids,
        revision=revisions,
        reviewer=reviewers,
        verdict=st.sampled_from(("error", "error", "ok", "unsure")),
        labels=st.sampled_from(CORRECTIONS),
        withdrawn=st.sampled_from((False, False, False, True)),
        adjudication=st.sampled_from((False, False, True)),
        shown=st.booleans(),
        blind_answer=st.sampled_from((None, None, {}, {"verdict": "ok"}, {"verdict": "error", "labels": GIVEN})),
        minute=st.integers(0, 5),
    )
    def decide(
        self,
        *,
        sentence_id: str,
        revision: int,
        reviewer: str,
        verdict: str,
        labels: tuple[str, ...] | None,
        withdrawn: bool,
        adjudication: bool,
        shown: bool,
        blind_answer: dict[str, Any] | None,
        minute: int,
    ) -> None:
        self.append(
            make_decision_output(
                sentence_id,
                verdict,
                revision=revision,
                reviewer=reviewer,
                labels=labels if verdict == "error" else None,
                withdrawn=withdrawn,
                adjudication=adjudication,
                shown={"labels": GIVEN, "scores": (0.9, 0.1, 0.8)} if shown else None,
                blind_answer=blind_answer,
                decided_at=minutes_after_now(minute),
            )
        )

    @rule(sentence_id=ids, reviewer=reviewers, kind=st.sampled_from(("decision", "adjudication", "claim")))
    def erase_message(self, sentence_id: str, reviewer: str, kind: str) -> None:
        encode = {
            "decision": encode_decision_key,
            "adjudication": encode_adjudication_key,
            "claim": encode_claim_key,
        }[kind]
        partition = 0 if kind == "claim" else None
        self.append(Output(TOPICS.decisions, encode("default", sentence_id, reviewer), None, partition=partition))

    @rule(sentence_id=ids, reviewer=reviewers, minutes=st.sampled_from((None, -1, 1, 5)))
    def claim(self, sentence_id: str, reviewer: str, minutes: int | None) -> None:
        until = None if minutes is None else minutes_after_now(minutes)
        self.append(build_claim_message(TOPICS, Claim(id=sentence_id, reviewer=reviewer, until=until)))

    def append(self, output: Output) -> None:
        """Often the queue reads on at once, sometimes later, with others."""
        self.log.append([output])
        self.is_read = self.log.records[-1].offset % 3 != 0
        if self.is_read:
            self.harness.catch_up()

    # -- what must hold ------------------------------------------------------------------------------------------------

    @rule(seed=st.integers(0, 20), batch_size=st.integers(1, 7))
    def rebuild(self, seed: int, batch_size: int) -> None:
        self.read_all()
        rebuilt = QueueHarness(self.log.reader(seed=seed, most=batch_size), ReviewQueue(":memory:"))
        try:
            rebuilt.catch_up()
            assert dump_queue(rebuilt.queue) == dump_queue(self.harness.queue)
            for reviewer in REVIEWERS:
                assert list_free(rebuilt.queue, reviewer) == list_free(self.harness.queue, reviewer)
        finally:
            rebuilt.close()

    @rule()
    def read_all(self) -> None:
        self.harness.catch_up()
        self.is_read = True

    @invariant()
    def the_summaries_are_those_of_a_scan(self) -> None:
        if self.harness.queue.version != self.checked_version:
            assert_summaries_are_scans(self.harness.queue)
            self.checked_version = self.harness.queue.version

    @invariant()
    def the_queue_follows_the_rules_in_memory(self) -> None:
        if self.is_read:
            self.compare_with_the_rules_in_memory()

    def compare_with_the_rules_in_memory(self) -> None:
        state: ReviewState[Any] = ReviewState({"default": self.overlap})
        for assessment in iterate_assessments(record for record in self.log.records if record.topic == TOPICS.review):
            state.apply_assessment(assessment)
        for decision in iterate_decisions(record for record in self.log.records if record.topic == TOPICS.decisions):
            state.apply_decision(decision)
        for sentence_id in IDS:
            item = self.harness.queue.get_item("default", sentence_id, now=NOW)
            assert (None if item is None else item.state) == state.get_state("default", sentence_id)
            if item is None:
                continue
            sentence = state.sentences.get("default", sentence_id)
            assert sentence is not None
            decisions = state.get_decisions(sentence)
            assert item.decision_count == sum(not decision.adjudication for decision in decisions)
            is_hidden = state.settle(sentence).state == "open"
            shown = () if is_hidden else tuple(hide_records(each) for each in decisions)
            assert item.decisions == shown

    @invariant()
    def nobody_sees_decisions_of_others_about_open_items(self) -> None:
        for viewer in REVIEWERS:
            page = self.harness.queue.get_page(QueueFilter(state="all", viewer=viewer), limit=10, now=NOW)
            for item in page.items:
                if item.state == "open":
                    assert {decision.reviewer for decision in item.decisions} <= {viewer}
                    assert item.agreement is None


def hide_records(decision: Decision) -> Decision:
    return decision.model_copy(update={"shown": None, "blind_answer": None})


def list_free(queue: ReviewQueue, reviewer: str) -> list[tuple[str, str]]:
    return queue.list_free_keys(QueueFilter(reviewer=reviewer), after=None, limit=10, now=NOW)


TestReviewMachine = ReviewMachine.TestCase
TestReviewMachine.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
