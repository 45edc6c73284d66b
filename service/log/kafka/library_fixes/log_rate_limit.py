"""Limits the rate of the library's log messages.

Bug: the search for a coordinator repeats without a pause while the coordinator is down.
Symptom: 200 to 400 warnings per second, some with tracebacks.
Remove it when: a worker whose broker is down logs a few messages per second at most without it.
"""

from __future__ import annotations

import logging
import re
import time

from service.log.kafka.client_errors import describe_error

NOISY_LOGGERS = (
    "kafka.cluster",
    "kafka.consumer.fetcher",
    "kafka.coordinator",
    "kafka.coordinator.base",
    "kafka.coordinator.consumer",
    "kafka.coordinator.heartbeat",
    "kafka.net.connection",
    "kafka.net.manager",
    "kafka.net.selector",
    "kafka.net.transport",
    "kafka.producer.sender",
    "kafka.producer.transaction_manager",
)
MAX_MESSAGE_KINDS = 1_000
_NUMBER = re.compile(r"\d+")


class RateLimitFilter(logging.Filter):
    """Passes one message of a kind per interval, without its traceback, and adds how many it has dropped.

    Messages that differ only in numbers are of one kind: the library formats some texts before it logs them.
    """

    def __init__(self, interval: float = 10.0) -> None:
        super().__init__()
        self._interval = interval
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # when a kind was last passed, and drops since then

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.name, _NUMBER.sub("0", str(record.msg))), time.monotonic()
        passed_at, dropped = self._seen.get(kind, (float("-inf"), 0))
        if now - passed_at < self._interval:
            self._seen[kind] = (passed_at, dropped + 1)
            return False
        if len(self._seen) >= MAX_MESSAGE_KINDS:
            self._seen.clear()
        self._seen[kind] = (now, 0)
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message, record.exc_info = f"{message} ({describe_error(record.exc_info[1])})", None
        if dropped:
            message = f"{message} ({dropped} more like this were left out)"
        record.msg, record.args = message, ()
        return True


def limit_log_rate() -> None:
    rate_limit = RateLimitFilter()
    for name in NOISY_LOGGERS:
        logging.getLogger(name).addFilter(rate_limit)
