"""A commit does not wait for a broker that this worker can't reach and others can."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaTimeoutError

from service.log.kafka.library_fixes.transactions.watchdog import Watchdog
from service.log.kafka.worker.transactional_producer import TransactionalProducer
from service.settings.kafka import KafkaSettings


class SlowProducer:
    """Delivers with the given flush."""

    def __init__(self, delivers_at: int) -> None:
        self.flushes = 0
        self._delivers_at = delivers_at

    def flush(self, timeout: float) -> None:
        assert timeout >= 0
        self.flushes += 1
        if self.flushes < self._delivers_at:
            raise KafkaTimeoutError("not yet")


def _make_producer(*, must_give_way: bool) -> TransactionalProducer:
    return TransactionalProducer(
        KafkaSettings.for_servers("localhost:9092"),
        transactional_id="one",
        can_claim_id=lambda: True,
        watchdog=Watchdog(),
        must_give_way=lambda: must_give_way,
    )


def test_a_flush_goes_on_until_everything_is_delivered() -> None:
    slow = SlowProducer(delivers_at=4)
    _make_producer(must_give_way=False)._flush(slow, 600)
    assert slow.flushes == 4


def test_a_flush_ends_when_the_worker_has_to_give_way_and_when_its_time_is_over() -> None:
    slow = SlowProducer(delivers_at=4)
    with pytest.raises(KafkaTimeoutError):
        _make_producer(must_give_way=True)._flush(slow, 600)
    assert slow.flushes == 1
    with pytest.raises(KafkaTimeoutError):
        _make_producer(must_give_way=False)._flush(SlowProducer(delivers_at=4), 0)
