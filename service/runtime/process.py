"""What every long-running command sets up in its process: logging and signals."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import BaseModel, SecretStr

from service.telemetry import configure_logging

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from types import FrameType

    from service.settings import Settings


def set_up_logging(settings: Settings) -> None:
    """Logs to standard error in the format and level of the settings, with their secrets redacted."""
    configure_logging(settings.logs.format, settings.logs.level, secrets=_collect_secrets(settings))


def _collect_secrets(settings: BaseModel) -> Iterator[str]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            text = value.get_secret_value()
            yield text
            # A list of API keys: each entry may be name:scope:hash, and the hash alone is a secret too.
            yield from (part.strip().rpartition(":")[2] for part in text.split(","))
        elif isinstance(value, BaseModel):
            yield from _collect_secrets(value)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Sets `stop` on the first SIGTERM or SIGINT. The second one ends the process at once."""
    requested = False

    def handle_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature that `signal` calls
        nonlocal requested
        if requested:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        requested = True
        stop.set()

    previous_handlers = {number: signal.signal(number, handle_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
