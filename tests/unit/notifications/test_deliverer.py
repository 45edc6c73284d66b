"""Notifications from the topics to a real receiver: signed, at least once, with backoff, failed ones and disabled endpoints."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import DatasetSettings
from service.formats.platforms.webhook_signatures import parse_secret, verify
from service.judging.misfit import Misfit
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.notifications import deliverer as module
from service.notifications.admin import NewEndpoint, WebhookAdmin
from service.notifications.client import WebhookClient
from service.notifications.deliverer import BACKOFF_S, Deliverer
from service.notifications.state import read_notification_state
from service.review.queue.figures.batches import BatchOutcomes, Outcomes
from service.statistics.arrivals import FlagCounts
from service.statistics.batches import BatchCounts, DatasetBatches
from tests.support.review_queue import make_assessment, make_decision_output, make_review_output
from tests.support.webhook_receiver import WebhookReceiver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from service.log.protocol import Output
    from service.log.sqlite.follower import SqliteFollower

TOPICS = Topics()
KEY = "k" * 32
ALLOWED = frozenset({"127.0.0.1"})


@dataclass
class Datasets:
    """What the API knows of datasets."""

    settings: dict[str, DatasetSettings] = field(default_factory=lambda: {"default": DatasetSettings()})
    misfits: dict[str, Misfit] = field(default_factory=dict)
    batches: dict[str, DatasetBatches] = field(default_factory=dict)
    outcomes: BatchOutcomes = field(default_factory=BatchOutcomes)
    caught_up: bool = True

    def list_names(self) -> list[str]:
        return sorted(self.settings)

    def get_settings(self, dataset: str) -> DatasetSettings:
        return self.settings.get(dataset, DatasetSettings(name=dataset))

    def list_misfits(self) -> dict[str, Misfit]:
        return self.misfits

    def get_batches(self, dataset: str) -> DatasetBatches:
        return self.batches.get(dataset, DatasetBatches())

    def read_batch_outcomes(self, _dataset: str, _batch: str) -> BatchOutcomes:
        return self.outcomes


@dataclass
class WebhookHarness:
    log: SqliteLog
    receiver: WebhookReceiver
    datasets: Datasets = field(default_factory=Datasets)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    outcomes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = WebhookClient(allowed_hosts=ALLOWED, timeout_s=0.5)
        self.admin = WebhookAdmin(self.log, TOPICS.webhooks, self.client, KEY)
        self.deliverer = self.start()

    def start(self, *, is_queue_complete: Callable[[], bool] = lambda: True) -> Deliverer:
        """A deliverer that knows nothing but the topics, as after a restart."""
        return Deliverer(
            self.log,
            TOPICS,
            self.client,
            master_key=KEY,
            view=self.datasets,
            queue=self.datasets,
            is_queue_complete=is_queue_complete,
            digest_s=60,
            on_outcome=self.outcomes.append,
            now=lambda: self.now,
        )

    def add(self, **fields: Any) -> NewEndpoint:
        endpoint = self.admin.add({"url": self.receiver.url, **fields})
        self.step()  # positions: what was there before is not notified
        return endpoint

    def step(self, *, seconds: float = 0) -> None:
        """Steps until no delivery is due."""
        self.now += timedelta(seconds=seconds)
        for _ in range(3):
            self.deliverer.step()
            while any(not future.done() for future in self.deliverer._running.values()):
                time.sleep(0.005)

    def decide(self, *ids: str, dataset: str = "default") -> None:
        self.log.append([make_decision_output(each, dataset=dataset) for each in ids])

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.receiver.requests]

    @property
    def state(self) -> Any:
        return read_notification_state(self.log, TOPICS.webhooks)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WebhookHarness]:
    with ExitStack() as stack:
        receiver = stack.enter_context(WebhookReceiver())
        log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
        stack.callback(log.close)
        harness = WebhookHarness(log, receiver)
        yield harness
        harness.deliverer.release()


def test_a_decision_is_notified_signed_and_once(harness: WebhookHarness) -> None:
    harness.decide("before")
    time.sleep(0.002)  # the log has times in milliseconds
    endpoint = harness.add()
    harness.decide("a", "b")
    harness.step()
    harness.step(seconds=120)
    assert [(body["type"], body["data"]["id"]) for body in harness.bodies] == [
        ("item.decided", "a"),
        ("item.decided", "b"),
    ]
    headers, body = harness.receiver.requests[0]
    verify(body, headers, [parse_secret(endpoint.secret)], now=harness.now)
    assert endpoint.secret not in str(list(harness.log.follow(TOPICS.webhooks).poll()))
    assert harness.state.messages[endpoint.id] == {}
    assert harness.outcomes == ["delivered", "delivered"]


def test_what_happens_between_the_addition_and_the_first_step_is_notified(harness: WebhookHarness) -> None:
    harness.decide("before")
    time.sleep(0.002)  # the log has times in milliseconds
    harness.admin.add({"url": harness.receiver.url, "events": ["item.decided", "items.flagged"]})
    harness.decide("a")
    harness.log.append([make_review_output(make_assessment("b"))])
    harness.step()
    assert sorted(body["type"] for body in harness.bodies) == ["item.decided", "items.flagged"]
    assert "before" not in str(harness.bodies)


def test_what_happens_while_an_endpoint_is_disabled_is_not_notified_later(harness: WebhookHarness) -> None:
    endpoint = harness.add()
    harness.receiver.behaviour = "gone"
    harness.decide("a")
    harness.step()
    harness.decide("while disabled")
    time.sleep(0.002)
    harness.receiver.behaviour = "ok"
    harness.admin.retry(endpoint.id)
    harness.decide("b")
    harness.deliverer = harness.start()
    harness.step()
    assert [body["data"]["id"] for body in harness.bodies] == ["a", "a", "b"]


def test_a_delivery_before_the_first_digest_does_not_shorten_it(harness: WebhookHarness) -> None:
    endpoint = harness.add()
    harness.admin.remove(endpoint.id)
    harness.step()
    harness.admin.add({"url": harness.receiver.url})
    harness.log.append([make_review_output(make_assessment("b"))])
    time.sleep(0.002)
    harness.decide("a")
    harness.step()
    harness.step(seconds=120)
    assert [body["type"] for body in harness.bodies] == ["item.decided", "items.flagged"]


def test_an_endpoint_gets_nothing_that_is_older_than_it(harness: WebhookHarness) -> None:
    harness.admin.add({"url": harness.receiver.url, "datasets": ["other"]})
    harness.decide("before")
    time.sleep(0.002)
    harness.admin.add({"url": harness.receiver.url})
    harness.decide("a")
    harness.step()
    assert [body["data"]["id"] for body in harness.bodies] == ["a"]


def test_a_backlog_is_bounded_for_each_endpoint(harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    monkeypatch.setattr(module, "MAX_FAILED", 2)
    monkeypatch.setattr(module, "MAX_NEW", 5)
    written: list[int] = []
    append = harness.log.append

    def count_and_append(outputs: Sequence[Output]) -> None:
        written.append(len(outputs))
        append(outputs)

    monkeypatch.setattr(harness.log, "append", count_and_append)
    endpoint = harness.admin.add({"url": harness.receiver.url, "datasets": ["rare"]})
    harness.decide("rare", dataset="rare")
    harness.decide(*"abcdefghij")
    harness.decide(*"klmnop", dataset="rare")
    written.clear()
    harness.step()
    assert [body["data"]["id"] for body in harness.bodies] == ["n", "o", "p"]
    assert [each.data["id"] for each in harness.admin.list_failed(endpoint.id)] == ["m", "l"]
    assert max(written) == 6, "five notifications and the positions"


def test_a_restart_loses_nothing_and_repeats_nothing(harness: WebhookHarness) -> None:
    harness.add()
    harness.decide("a")
    harness.step()
    harness.deliverer.release()
    harness.decide("b")
    harness.deliverer = harness.start()
    harness.step()
    assert [body["data"]["id"] for body in harness.bodies] == ["a", "b"]


def test_a_crash_before_the_delivery_is_recorded_sends_the_same_id_again(harness: WebhookHarness) -> None:
    harness.add()
    harness.decide("a")
    harness.deliverer.step()  # written and sent, and not yet recorded as delivered
    while not harness.receiver.requests:
        time.sleep(0.005)
    harness.deliverer = harness.start()
    harness.step()
    first, second = (headers["webhook-id"] for headers, _ in harness.receiver.requests)
    assert first == second


def test_new_items_are_a_digest_that_hides_control_sentences(harness: WebhookHarness) -> None:
    harness.add(events=["items.flagged"])
    outputs = [make_review_output(make_assessment(f"s{n}")) for n in range(5)]
    outputs.append(make_review_output(make_assessment("c", reason="control", inclusion_probability=0.1)))
    outputs.append(make_review_output(make_assessment("u", reason="update", update=True)))
    harness.log.append(outputs)
    harness.step(seconds=30)
    assert harness.bodies == [], "a digest comes once per interval"
    harness.step(seconds=60)
    assert [body["data"] for body in harness.bodies] == [{"dataset": "default", "items": 6}]
    harness.step(seconds=60)
    assert len(harness.bodies) == 1


def test_endpoints_choose_events_and_datasets(harness: WebhookHarness) -> None:
    harness.add(events=["item.decided"], datasets=["med"])
    harness.decide("a")
    harness.decide("b", dataset="med")
    harness.step()
    assert [body["data"]["id"] for body in harness.bodies] == ["b"]


def test_conditions_are_notified_when_they_change(harness: WebhookHarness) -> None:
    harness.add()
    datasets = harness.datasets
    datasets.settings["default"] = DatasetSettings(model="med-v2", version=3, max_error_rate=0.1)
    datasets.misfits = {"default": Misfit(FlagCounts(100, 60), 0.3)}
    datasets.batches = {"default": DatasetBatches({"7": BatchCounts(0, {"1.0": 50})})}
    datasets.outcomes = BatchOutcomes(controls=(("1.0", Outcomes(ok=50)),))
    harness.step(seconds=60)
    found = {body["type"]: body["data"] for body in harness.bodies}
    assert set(found) == {"dataset.misfit", "dataset.model_replaced", "batch.verdict"}
    assert "60 of 100" in found["dataset.misfit"]["problem"]
    assert (found["dataset.model_replaced"]["previous"], found["dataset.model_replaced"]["model"]) == (None, "med-v2")
    assert (found["batch.verdict"]["batch"], found["batch.verdict"]["verdict"]) == ("7", "accept")
    harness.deliverer.release()
    harness.deliverer = harness.start()
    harness.step(seconds=60)
    assert len(harness.bodies) == 3
    datasets.outcomes = BatchOutcomes(controls=(("1.0", Outcomes(ok=30, wrong=20)),))
    harness.step(seconds=60)
    assert harness.bodies[-1]["data"]["verdict"] == "reject"


def test_a_new_endpoint_gets_no_change_of_a_condition_that_is_older(harness: WebhookHarness) -> None:
    datasets = harness.datasets
    datasets.settings["default"] = DatasetSettings(max_error_rate=0.1)
    datasets.batches = {"default": DatasetBatches({"6": BatchCounts(0, {"1.0": 50})})}
    datasets.outcomes = BatchOutcomes(controls=(("1.0", Outcomes(ok=50)),))
    harness.admin.remove(harness.add().id)
    harness.step()
    datasets.settings["default"] = DatasetSettings(model="med-v2", version=3, max_error_rate=0.1)
    datasets.misfits = {"default": Misfit(FlagCounts(100, 60), 0.3)}
    harness.step(seconds=60)
    harness.add()
    assert [body["type"] for body in harness.bodies] == ["dataset.misfit"], "the only one that is a problem now"

    datasets.outcomes = BatchOutcomes(controls=(("1.0", Outcomes(ok=30, wrong=20)),))
    harness.step(seconds=60)
    assert [body["type"] for body in harness.bodies[1:]] == ["batch.verdict"]


def test_the_first_check_waits_until_the_queue_is_complete(harness: WebhookHarness) -> None:
    is_complete = False
    harness.deliverer = harness.start(is_queue_complete=lambda: is_complete)
    datasets = harness.datasets
    datasets.settings["default"] = DatasetSettings(max_error_rate=0.1)
    datasets.batches = {"default": DatasetBatches({"6": BatchCounts(0, {"1.0": 50})})}
    harness.admin.add({"url": harness.receiver.url})
    harness.log.append([make_review_output(make_assessment("b"))])
    harness.step(seconds=60)
    assert harness.bodies == []
    is_complete, datasets.outcomes = True, BatchOutcomes(controls=(("1.0", Outcomes(ok=50)),))
    harness.step(seconds=60)
    assert [body["type"] for body in harness.bodies] == ["items.flagged"], "the verdict was reached before"


@pytest.mark.parametrize("body", ["standard", "slack"])
def test_independent_decisions_are_notified_without_their_answer(harness: WebhookHarness, body: str) -> None:
    harness.datasets.settings["default"] = DatasetSettings(overlap=2)
    harness.add(body=body)
    answer: dict[str, Any] = {"labels": ("O", "B-LOC", "O"), "note": "a town"}
    harness.log.append([make_decision_output("a", "error", reviewer="ann", **answer)])
    harness.step()
    (sent,) = harness.bodies
    assert not any(each in str(sent) for each in ("error", "B-LOC", "a town"))
    assert ("ann" in str(sent), "'a'" in str(sent) or "default/a" in str(sent)) == (True, True)
    harness.log.append([make_decision_output("a", "error", reviewer="cyd", adjudication=True, **answer)])
    harness.step()
    assert "error" in str(harness.bodies[-1]), "an item that is settled has all its decisions"


def test_decisions_wait_until_it_is_known_whether_they_are_hidden(harness: WebhookHarness) -> None:
    harness.add()
    harness.datasets.caught_up = False
    harness.decide("a")
    harness.step()
    assert harness.bodies == []
    harness.datasets.caught_up = True
    harness.step()
    assert [each["data"]["id"] for each in harness.bodies] == ["a"]


def test_a_paused_endpoint_gets_what_waited_when_it_is_resumed(harness: WebhookHarness) -> None:
    endpoint = harness.add()
    harness.admin.pause(endpoint.id, paused=True)
    harness.decide("a", "b")
    harness.step()
    assert harness.bodies == []
    (report,) = harness.admin.list_endpoints()
    assert (report.paused, report.pending, report.status.last_delivered_at) == (True, 2, None)
    harness.deliverer.release()
    harness.deliverer = harness.start()
    harness.admin.pause(endpoint.id, paused=False)
    harness.step()
    assert [body["data"]["id"] for body in harness.bodies] == ["a", "b"]


def test_an_endpoint_that_is_paused_during_a_step_gets_nothing_that_came_after(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = harness.admin.add({"url": harness.receiver.url})
    follow = harness.log.follow

    def pause_decide_and_follow(topic: str) -> SqliteFollower:
        if topic == TOPICS.decisions:
            harness.admin.pause(endpoint.id, paused=True)
            harness.decide("a")
        return follow(topic)

    monkeypatch.setattr(harness.log, "follow", pause_decide_and_follow)
    harness.step()
    assert harness.bodies == []
    assert harness.admin.list_endpoints()[0].pending == 1


def test_what_waits_for_a_paused_endpoint_is_bounded(harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    endpoint = harness.add()
    harness.admin.pause(endpoint.id, paused=True)
    harness.decide(*"abcde")
    harness.step()
    (report,) = harness.admin.list_endpoints()
    assert (report.pending, report.failed) == (3, 2)


def test_the_time_of_the_last_delivery_is_kept_to_the_minute(harness: WebhookHarness) -> None:
    endpoint = harness.add()
    harness.decide("a")
    harness.step()
    first = harness.state.get_status(endpoint.id).last_delivered_at
    assert first is not None
    harness.decide("b")
    harness.step(seconds=5)
    assert harness.state.get_status(endpoint.id).last_delivered_at == first, "not a record for every delivery"
    harness.receiver.behaviour = "fail"
    harness.decide("c")
    harness.step(seconds=70)
    status = harness.state.get_status(endpoint.id)
    assert (status.last_delivered_at, status.last_error) == (first, "answered 503")
    harness.admin.retry(endpoint.id)
    assert harness.state.get_status(endpoint.id).last_delivered_at == first
    harness.receiver.behaviour = "ok"
    harness.step(seconds=70)
    assert harness.state.get_status(endpoint.id).last_delivered_at > first


def test_slack_gets_a_text(harness: WebhookHarness) -> None:
    harness.add(body="slack")
    harness.decide("<a&b>")
    harness.step()
    assert [list(body) for body in harness.bodies] == [["text"]]
    assert "default/&lt;a&amp;b&gt;" in harness.bodies[0]["text"]


def test_failed_deliveries_are_repeated_with_growing_intervals_and_then_kept(harness: WebhookHarness) -> None:
    endpoint = harness.add()
    harness.receiver.behaviour = "fail"
    harness.decide("a")
    harness.step()
    assert len(harness.bodies) == 1
    for wait in BACKOFF_S:
        (pending,) = harness.state.list_messages(endpoint.id, failed=False)
        assert wait * 0.8 <= (pending.next_attempt_at - harness.now).total_seconds() <= wait * 1.2
        harness.step(seconds=wait * 1.3)
    assert len(harness.bodies) == 1 + len(BACKOFF_S)
    assert len({headers["webhook-id"] for headers, _ in harness.receiver.requests}) == 1
    (failed,) = harness.admin.list_failed(endpoint.id)
    assert (failed.data["id"], failed.last_error) == ("a", "answered 503")
    harness.receiver.behaviour = "ok"
    assert harness.admin.retry(endpoint.id) == 1
    harness.step()
    assert harness.admin.list_failed(endpoint.id) == []
    assert harness.outcomes == ["retried"] * len(BACKOFF_S) + ["failed", "delivered"]


def test_a_receiver_that_hangs_does_not_hold_up_another(harness: WebhookHarness) -> None:
    harness.receiver.behaviour = "hang"
    harness.add()
    with WebhookReceiver() as other:
        harness.admin.add({"url": other.url})
        harness.decide("a", "b", "c")
        harness.deliverer.step()
        harness.deliverer.step()
        deadline = time.monotonic() + 10
        while len(other.requests) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
            harness.deliverer.step()
        assert len(other.requests) == 3
    harness.step()
    assert len(harness.receiver.requests) == 1, "without an answer the others are not tried at once"
    harness.receiver.behaviour = "ok"
    harness.step(seconds=10)
    assert sorted(body["data"]["id"] for body in harness.bodies) == ["a", "a", "b", "c"]


def test_an_endpoint_that_fails_for_days_or_is_gone_is_disabled(
    harness: WebhookHarness, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = harness.add()
    harness.receiver.behaviour = "fail"
    harness.decide("a")
    harness.step()
    harness.step(seconds=4 * 86_400)
    (report,) = harness.admin.list_endpoints()
    assert report.status.disabled_at is not None
    assert (report.pending, report.failed) == (0, 1)
    assert f"labelwatch webhooks retry {endpoint.id}" in caplog.text
    count = len(harness.bodies)
    harness.decide("b")
    harness.step(seconds=4 * 86_400)
    assert len(harness.bodies) == count, "nothing is sent to a disabled endpoint"
    harness.admin.retry(endpoint.id)
    harness.receiver.behaviour = "gone"
    harness.step()
    assert harness.admin.list_endpoints()[0].status.last_error == "answered 410"
    assert harness.admin.list_endpoints()[0].status.disabled_at is not None


def test_what_waits_and_what_failed_is_bounded(harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    monkeypatch.setattr(module, "MAX_FAILED", 2)
    endpoint = harness.add()
    harness.receiver.behaviour = "fail"
    harness.decide(*"abcdefgh")
    harness.step()
    assert len(harness.state.list_messages(endpoint.id, failed=False)) == 3
    assert [each.data["id"] for each in harness.admin.list_failed(endpoint.id)] == ["e", "d"]


def test_a_removed_endpoint_takes_everything_with_it(harness: WebhookHarness) -> None:
    endpoint = harness.add()
    harness.receiver.behaviour = "fail"
    harness.decide("a")
    harness.step()
    harness.admin.remove(endpoint.id)
    harness.step(seconds=60)
    state = harness.state
    assert (state.endpoints, state.statuses, state.messages[endpoint.id], state.positions) == ({}, {}, {}, {})


def test_a_test_is_sent_at_once(harness: WebhookHarness) -> None:
    endpoint = harness.add()
    assert harness.admin.test(endpoint.id, by="dana").delivered
    assert (harness.bodies[0]["type"], harness.bodies[0]["data"]) == ("webhook.test", {"by": "dana"})
    harness.receiver.behaviour = "fail"
    assert harness.admin.test(endpoint.id).problem == "answered 503"
