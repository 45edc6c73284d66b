"""A scoring process, as the first process of the API sees it."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from service.errors import LabelwatchError
from service.runtime.lifecycle.child_process import describe_end, end_process
from service.runtime.scoring.channel import ChannelClosedError, Kind, open_channel
from service.runtime.scoring.heartbeat import Heartbeat

if TYPE_CHECKING:
    import threading
    from types import TracebackType

logger = logging.getLogger(__name__)

CHILD_MODULE: Final = "service.runtime.scoring.child"
WATCH_INTERVAL_S: Final = 0.2
METRICS_TIMEOUT_S: Final = 2.0
STARTING: Final = "it is starting"
ENDED: Final = "it has ended"


class ScoringProcessEndedError(LabelwatchError):
    """A scoring process ended or does not answer, although it was not stopped."""

    stage = "supervisor"


class ScoringProcess:
    """A running scoring process. Leaving the context ends it."""

    def __init__(self, number: int) -> None:
        self.name = f"scoring-{number}"
        self.heartbeat = Heartbeat(self.name)
        self.reported_status = STARTING  # why it is not ready, as it says itself; empty: it is
        self.connections: dict[int, str] = {}  # the addresses of its clients, by the number of the connection
        self.channel, theirs = open_channel()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD_MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the service, which then stops this process
            )
        self._metrics: Future[bytes] = Future()
        self._last_metrics = b"[]"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> str:
        """Why it is not ready; empty: it is."""
        problem = self.heartbeat.problem
        return self.reported_status or (f"it {problem}" if problem else "")

    def run(self, stop: threading.Event) -> None:
        """Waits until the process has ended. When `stop` is set it finishes its requests first.

        A process that has not answered for too long counts as one that has ended. Leaving the context ends it.
        """
        stopping = False
        while True:
            if stop.is_set() and not stopping:
                stopping = True
                self.channel.end()
            try:
                code = self._process.wait(WATCH_INTERVAL_S)
            except subprocess.TimeoutExpired:
                if self.heartbeat.has_ceased and not stop.is_set():
                    raise ScoringProcessEndedError(
                        f"the scoring process {self.name} {self.heartbeat.problem}"
                    ) from None
                continue
            break
        self.reported_status = ENDED
        if not stop.is_set():
            raise ScoringProcessEndedError(f"the scoring process {self.name} {describe_end(code)}")
        if code:
            logger.warning("the scoring process %s %s", self.name, describe_end(code))

    def give(self, number: int, descriptor: int, address: str) -> bool:
        """Gives it a client's connection; False if it can't take one now."""
        try:
            self.channel.send(Kind.CONNECTION, number, descriptor=descriptor, wait=False)
        except (BlockingIOError, ChannelClosedError):
            return False
        self.connections[number] = address
        return True

    def request_metrics(self) -> None:
        self._metrics = Future()
        with suppress(BlockingIOError, ChannelClosedError):  # the last ones stay
            self.channel.send(Kind.METRICS, wait=False)

    def take_metrics(self, metrics: bytes) -> None:
        self._last_metrics = metrics
        if not self._metrics.done():
            self._metrics.set_result(metrics)

    def wait_for_metrics(self) -> bytes:
        """What it answered to `request_metrics`, or its last metrics if it does not answer in time."""
        if self.reported_status != ENDED:
            with suppress(TimeoutError):
                return self._metrics.result(METRICS_TIMEOUT_S)
        return self._last_metrics

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end_process(self._process)
        self.channel.close()
