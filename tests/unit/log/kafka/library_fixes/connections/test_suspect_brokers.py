"""A broker that did not answer one client is the last choice of the others, for a while."""

from __future__ import annotations

from dataclasses import dataclass

from service.log.kafka.library_fixes.connections.suspect_brokers import MAX_SUSPECTS, SUSPECT_S, SuspectBrokers


@dataclass
class FakeBroker:
    node_id: object
    host: str
    port: int


BROKER = FakeBroker(1, "a", 9092)


def test_a_failure_is_remembered_for_a_while_and_a_success_forgets_it() -> None:
    now = 0.0
    suspects = SuspectBrokers(lambda: now)
    assert not suspects.includes(BROKER)
    assert not suspects.includes(None)
    suspects.note(("a", 9092), connected=False)
    assert suspects.includes(BROKER)
    assert not suspects.includes(FakeBroker(1, "a", 9093))
    now = SUSPECT_S
    assert not suspects.includes(BROKER)
    suspects.note(("a", 9092), connected=False)
    suspects.note(("a", 9092), connected=True)
    assert not suspects.includes(BROKER)


def test_its_size_is_limited() -> None:
    suspects = SuspectBrokers()
    for port in range(MAX_SUSPECTS + 10):
        suspects.note(("a", port), connected=False)
    assert len(suspects._failed_at) <= MAX_SUSPECTS
