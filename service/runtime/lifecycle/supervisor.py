"""Threads that must not die: the first that ends without being stopped ends the process."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from service.errors import LabelwatchError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

TICK_INTERVAL_S = 0.5


class ThreadEndedError(LabelwatchError):
    """A thread of the service ended or failed although it was not stopped."""

    stage = "supervisor"


class Supervisor:
    """Runs threads until `stop` is set. Each target gets `stop` and returns soon after it is set."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[tuple[str, BaseException | None]] = []

    def start(self, name: str, target: Callable[[threading.Event], None]) -> None:
        thread = threading.Thread(target=self._run_guarded, args=(name, target), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_guarded(self, name: str, target: Callable[[threading.Event], None]) -> None:
        try:
            target(self.stop)
        except BaseException as error:  # noqa: BLE001 - whatever the error, the process must end
            self._failures.append((name, error))
        else:
            if not self.stop.is_set():
                self._failures.append((name, None))
        finally:
            self.stop.set()

    @property
    def conditions(self) -> dict[str, str]:
        """By thread, the reason why it does not run; empty text if it does."""
        return {thread.name: self._describe_condition(thread) for thread in self._threads}

    def _describe_condition(self, thread: threading.Thread) -> str:
        if thread.name in {name for name, _ in self._failures}:
            return "the thread has died"
        return "the service is about to stop" if self.stop.is_set() else ""

    @property
    def alive(self) -> bool:
        """Whether no thread has ended without being stopped."""
        return not self._failures

    def wait(self, tick: Callable[[], None] = lambda: None) -> None:
        """Waits until every thread has ended. Raises the error of the first that failed."""
        while running := [thread for thread in self._threads if thread.is_alive()]:
            running[0].join(TICK_INTERVAL_S)
            tick()
        if not self._failures:
            return
        name, error = self._failures[0]
        if isinstance(error, LabelwatchError):
            raise error
        if error is None:
            raise ThreadEndedError(f"the thread `{name}` ended although it was not stopped")
        logger.error("the thread `%s` failed", name, exc_info=error)
        raise ThreadEndedError(f"the thread `{name}` failed with {type(error).__name__}: {str(error) or 'no message'}")
