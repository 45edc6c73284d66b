"""Says which endpoints get nothing because the service has no key to sign with."""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from service.errors import StreamError
from service.notifications.state import NotificationState

if TYPE_CHECKING:
    import threading

    from service.log.protocol import Log

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 60.0  # an endpoint may be added by a process that has the key
POLL_INTERVAL_S: Final = 0.05


def describe_unsent(state: NotificationState) -> str:
    """The problem of a process without a key; empty if there is none."""
    unsent = len(state.list_active())
    if not unsent:
        return ""
    who = "1 endpoint of outgoing webhooks gets" if unsent == 1 else f"{unsent} endpoints of outgoing webhooks get"
    return (
        f"{who} nothing from a process without LABELWATCH_WEBHOOKS_KEY: set the variable to the key that it had when "
        "endpoints were added, and start again"
    )


class UnsentWebhooks:
    """The endpoints of a process without a key. One thread runs it, any thread may read `problem`."""

    def __init__(self) -> None:
        self.problem = ""

    def run(self, log: Log, topic: str, stop: threading.Event) -> None:
        while not stop.is_set():
            with suppress(StreamError):  # the state view reports a log that does not answer
                self._read(log, topic, stop)
            stop.wait(CHECK_INTERVAL_S)

    def _read(self, log: Log, topic: str, stop: threading.Event) -> None:
        """Reads the topic, which is small, up to its present end."""
        state = NotificationState()
        with closing(log.follow(topic)) as follower:
            while not stop.is_set():
                for record in follower.poll():
                    state.apply(record)
                if follower.caught_up:
                    self._report(describe_unsent(state))
                    return
                stop.wait(POLL_INTERVAL_S)

    def _report(self, problem: str) -> None:
        if problem and not self.problem:
            logger.warning("%s", problem)
        self.problem = problem
