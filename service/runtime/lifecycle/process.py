"""What every long-running command sets up in its process: logging and signals."""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import BaseModel, SecretStr

from service.errors import SettingsError
from service.telemetry import configure_logging

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from service.settings import Settings
    from service.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)

FORCED_EXIT_CODE = 1
MAX_FILES = 65_536


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


@contextmanager
def open_tracing(settings: Settings) -> Iterator[Tracing | None]:
    """None if tracing is off; then no package of it is imported. Sends the last spans at the end."""
    if not settings.tracing.enabled:
        yield None
        return
    try:
        from service.telemetry.tracing import Tracing, build_provider
    except ImportError as error:
        raise SettingsError(
            "LABELWATCH_TRACING_ENABLED: spans need OpenTelemetry: pip install 'labelwatch[otel]'"
        ) from error
    provider = build_provider()
    try:
        yield Tracing(provider)
    finally:
        provider.shutdown()


def freeze_start_objects() -> None:
    """The garbage collector need not visit what is there now: model, settings and imports live as long as the process.

    A full collection stops all requests.
    """
    gc.collect()
    gc.freeze()


def restrict_new_files() -> None:
    """Files and folders that the process creates are for its user only: they hold the texts of datasets."""
    os.umask(0o077)


def raise_file_limit() -> int:
    """Raises the soft limit of file descriptors as far as the hard one allows, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MAX_FILES if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.warning("the limit of file descriptors stays at %d: %s", soft, error)
        return soft
    return wanted


def exit_after(stop: threading.Event, seconds: float, ended: threading.Event | None = None) -> None:
    """Ends the process this long after `stop` is set, whatever its threads still do, unless `ended` is set by then."""

    def wait() -> None:
        stop.wait()
        if (ended or threading.Event()).wait(seconds):
            return
        names = sorted(thread.name for thread in threading.enumerate() if thread is not threading.current_thread())
        logger.error("the process ends although it is not done after %g s: %s still run", seconds, ", ".join(names))
        os._exit(FORCED_EXIT_CODE)

    threading.Thread(target=wait, name="stop-deadline", daemon=True).start()


@contextmanager
def limit_stop_time(stop: threading.Event, seconds: float) -> Iterator[None]:
    """Ends the process if the block runs for this long after `stop` is set."""
    ended = threading.Event()
    exit_after(stop, seconds, ended)
    try:
        yield
    finally:
        ended.set()


@contextmanager
def end_if_stuck(seconds: float, message: str) -> Iterator[None]:
    """Ends the process with this message if the block takes longer. Native code can't be interrupted otherwise."""
    done = threading.Event()

    def watch() -> None:
        if not done.wait(seconds):
            os.write(2, f"labelwatch: {message}\n".encode())
            os._exit(FORCED_EXIT_CODE)

    threading.Thread(target=watch, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        done.set()
