from __future__ import annotations

import logging

from kafka.record.default_records import DefaultRecordBatch

from service.log.kafka.clients import build_client_config
from service.log.kafka.library_fixes.log_rate_limit import RateLimitFilter
from service.settings.kafka import KafkaSettings

SETTINGS = KafkaSettings.for_servers("127.0.0.1:9")


def test_the_library_is_patched_once() -> None:
    build_client_config(SETTINGS)
    patched = DefaultRecordBatch._read_msg
    build_client_config(SETTINGS)
    assert DefaultRecordBatch._read_msg is patched
    filters = logging.getLogger("kafka.coordinator").filters
    assert sum(isinstance(log_filter, RateLimitFilter) for log_filter in filters) == 1
