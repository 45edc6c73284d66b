"""Threads that must not die: the first that ends unasked ends the process."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import typer

from service.errors import LabelwatchError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

TICK_INTERVAL_S = 0.5


class Supervisor:
    """Runs threads until `stop` is set, by whoever. Each is given `stop` and should return soon after it is set."""

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
        except BaseException as error:  # noqa: BLE001 - whatever it died of, the process must not live on
            self._failures.append((name, error))
        else:
            if not self.stop.is_set():
                self._failures.append((name, None))
        finally:
            self.stop.set()

    @property
    def conditions(self) -> dict[str, str]:
        """By thread, why it does not do its work; empty where it does."""
        return {thread.name: self._describe_condition(thread) for thread in self._threads}

    def _describe_condition(self, thread: threading.Thread) -> str:
        if thread.name in {name for name, _ in self._failures}:
            return "the thread has died"
        return "the service is about to stop" if self.stop.is_set() else ""

    @property
    def alive(self) -> bool:
        """Whether no thread has ended unasked."""
        return not self._failures

    def wait(self, tick: Callable[[], None] = lambda: None) -> None:
        """Until every thread has ended; raises what the first died of."""
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            alive[0].join(TICK_INTERVAL_S)
            tick()
        if not self._failures:
            return
        name, error = self._failures[0]
        if isinstance(error, LabelwatchError):
            raise error
        if error is None:
            typer.echo(f"labelwatch: the thread `{name}` ended although nobody asked it to", err=True)
        else:
            logger.error("the thread `%s` died", name, exc_info=error)
            told = str(error) or "no reason given"
            typer.echo(f"labelwatch: the thread `{name}` died of {type(error).__name__}: {told}", err=True)
        raise typer.Exit(1)
