"""Which events an endpoint is notified about."""

from __future__ import annotations

import pytest

from service.notifications.events import Event, select_events
from service.notifications.state import NotificationState, create_endpoint

ENDPOINT = create_endpoint(NotificationState(), {"url": "https://example.com"}, allowed_hosts=frozenset())


@pytest.mark.parametrize(("at_ms", "is_new"), [(None, True), (-1, True), (0, True), (999, False), (1_000, True)])
def test_what_is_older_than_the_endpoint_is_left_out(at_ms: int | None, *, is_new: bool) -> None:
    """A record without a time, for which Kafka says -1, is new."""
    event = Event("item.decided", "a", "default", {}, at_ms)
    assert select_events([event], ENDPOINT, 1_000) == [event] * is_new
