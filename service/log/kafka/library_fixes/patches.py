"""Applies the fixes that change classes and loggers of the library itself, once per process."""

from __future__ import annotations

import threading

from service.log.kafka.library_fixes.connections.connection_setup import shorten_connection_setup
from service.log.kafka.library_fixes.connections.failed_sockets import close_failed_sockets
from service.log.kafka.library_fixes.connections.suspect_brokers import avoid_suspect_brokers
from service.log.kafka.library_fixes.log_rate_limit import limit_log_rate
from service.log.kafka.library_fixes.messages.header_keys import accept_any_header_key
from service.log.kafka.library_fixes.messages.packed_batches import limit_unpacked_batches
from service.log.kafka.library_fixes.transactions.transactional_retries import retry_timed_out_requests

_lock = threading.Lock()
_patched = threading.Event()


def patch_library() -> None:
    with _lock:
        if not _patched.is_set():
            limit_log_rate()
            accept_any_header_key()
            limit_unpacked_batches()
            close_failed_sockets()
            shorten_connection_setup()
            avoid_suspect_brokers()
            retry_timed_out_requests()
            _patched.set()
