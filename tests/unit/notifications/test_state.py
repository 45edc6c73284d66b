"""The records of the webhooks topic."""

from __future__ import annotations

import pytest

from service.log.protocol import Output
from service.notifications.state import NotificationState

UNREADABLE = [b"{}", b"[]", b"no JSON", b"[" * 100_000, b'{"0": Infinity}', b'{"value": Infinity}']


@pytest.mark.parametrize("value", UNREADABLE, ids=lambda value: repr(value[:20]))
@pytest.mark.parametrize(
    "key", [b"endpoint/a", b"status/a", b"message/a/b", b"positions/a", b"condition/a", b"\xff", b""]
)
def test_a_record_that_nobody_can_read_changes_nothing_else(key: bytes, value: bytes) -> None:
    state = NotificationState()
    state.apply(Output("labelwatch.webhooks", b"condition/seen", b'{"value": 3}'))
    state.apply(Output("labelwatch.webhooks", key, value))
    assert state.conditions["seen"] == 3
