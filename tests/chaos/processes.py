"""Real workers as processes: started as a user starts them, killed, frozen, and started again when they exit."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from service.log.kafka.library_fixes.transactions.watchdog import EXIT_STATUS as HUNG
from service.stream.worker.loop import ASSIGNED_PARTITIONS_MESSAGE
from tests.kafka.broker import SHIM

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND = (str(Path(sys.executable).with_name("labelwatch")), "worker")
HAS_PARTITIONS = ASSIGNED_PARTITIONS_MESSAGE % "["
EARLIER_PATH = "CHAOS_EARLIER_PATH"  # the folder whose code a worker runs, until it is upgraded
DRAIN_TIMEOUT_S = 180.0
MAX_OUTPUT_CHARS = 4_000
# Exits by design: whoever runs workers starts them again.
FENCED_MESSAGES = ("another process uses the transactional id", "another process uses the worker id")


@dataclass(slots=True)
class WorkerSlot:
    """One worker, and the process that runs it at this moment."""

    name: str
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    stop_requested: bool = False  # by a signal of the harness
    start_at: float = 0.0  # monotonic time of the next start

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


def _choose_code(environment: Mapping[str, str]) -> Mapping[str, str]:
    earlier = environment.get(EARLIER_PATH)
    if earlier is None:
        return environment
    return {**environment, "PYTHONPATH": os.pathsep.join((earlier, environment.get("PYTHONPATH", "")))}


@dataclass(slots=True)
class WorkerProcesses:
    """The workers, numbered from 0. One thread uses it. That thread must outlive the workers: they end with it."""

    folder: Path
    environment: Mapping[str, str]
    identities: tuple[str | None, ...]
    overrides: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # of the environment, by worker
    problems: list[str] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)  # how often workers exited by themselves, by reason
    starts: int = 0
    _slots: list[WorkerSlot] = field(default_factory=list)

    def __enter__(self) -> WorkerProcesses:
        atexit.register(self.close)
        for number, identity in enumerate(self.identities):
            environment = {**os.environ, **self.environment}
            environment |= {"LABELWATCH_WORKER_ID": identity} if identity else {}
            environment |= self.overrides.get(number, {})
            self._slots.append(WorkerSlot(f"worker {number}", environment, self.folder / f"worker-{number}.log"))
        self.supervise()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def supervise(self) -> None:
        """Records exits and starts the workers that are due."""
        for slot in self._slots:
            if slot.process is not None and slot.process.poll() is not None:
                self._record_exit(slot)
            if slot.process is None and time.monotonic() >= slot.start_at:
                self._start(slot)

    def _start(self, slot: WorkerSlot) -> None:
        self.starts += 1
        with slot.log.open("ab") as log:
            log.write(f"--- start {self.starts}\n".encode())
            log.flush()
            slot.process = subprocess.Popen(
                [sys.executable, "-c", SHIM, *COMMAND],
                cwd=self.folder,
                env=_choose_code(slot.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the harness only, which then ends its workers
            )
        slot.frozen = slot.stop_requested = False

    def _record_exit(self, slot: WorkerSlot) -> None:
        assert slot.process is not None
        status, requested = slot.process.returncode, slot.stop_requested
        slot.process = None
        if requested and status in (0, -signal.SIGKILL):
            return
        output = self._read_output(slot)[-MAX_OUTPUT_CHARS:]
        if requested and status == -signal.SIGTERM and len(output.splitlines()) <= 1:
            return  # the signal came before its handler was installed: there was nothing to finish
        if status == HUNG:
            reason = "hung"
        elif status == 1 and any(message in output for message in FENCED_MESSAGES):
            reason = "fenced"
        else:
            reason = f"status {status}"
            self.problems.append(f"{slot.name} ended with status {status}:\n{output}")
        self.exits[reason] = self.exits.get(reason, 0) + 1

    @staticmethod
    def _read_output(slot: WorkerSlot) -> str:
        """The output since the last start."""
        return slot.log.read_bytes().rpartition(b"--- start ")[2].decode(errors="replace")

    def has_partitions(self, number: int) -> bool:
        """Whether its log says that it has been assigned partitions since the last start."""
        slot = self._slots[number]
        return slot.alive and not slot.frozen and HAS_PARTITIONS in self._read_output(slot)

    def get_pid(self, number: int) -> int:
        process = self._slots[number].process
        assert process is not None, "the worker does not run"
        return process.pid

    # -- faults -------------------------------------------------------------------------------

    def kill(self, number: int, *, pause: float) -> bool:
        """Kills a worker, which is started again after `pause` seconds. Returns False if it does not run."""
        return self._stop_with(number, signal.SIGKILL, pause)

    def terminate(self, number: int, *, pause: float) -> bool:
        """Asks a worker to exit, as an orchestrator does."""
        return self._stop_with(number, signal.SIGTERM, pause)

    def upgrade(self, number: int, *, pause: float) -> bool:
        """Asks a worker to exit. It is started again with the present code instead of that in EARLIER_PATH."""
        stopped = self.terminate(number, pause=pause)
        if stopped:
            slot = self._slots[number]
            slot.environment = {name: value for name, value in slot.environment.items() if name != EARLIER_PATH}
        return stopped

    def _stop_with(self, number: int, with_signal: signal.Signals, pause: float) -> bool:
        slot = self._slots[number]
        if not slot.alive or slot.frozen or slot.stop_requested:
            return False
        assert slot.process is not None
        slot.stop_requested, slot.start_at = True, time.monotonic() + pause
        slot.process.send_signal(with_signal)
        return True

    def freeze(self, number: int) -> bool:
        """Suspends a worker, which does not notice how much time passes."""
        slot = self._slots[number]
        if not slot.alive or slot.frozen or slot.stop_requested:
            return False
        assert slot.process is not None
        slot.process.send_signal(signal.SIGSTOP)
        slot.frozen = True
        return True

    def thaw(self, number: int) -> None:
        slot = self._slots[number]
        if slot.alive and slot.process is not None and slot.frozen:
            slot.process.send_signal(signal.SIGCONT)
        slot.frozen = False

    def drain(self) -> None:
        """Asks all workers to exit and waits until they have."""
        for number, slot in enumerate(self._slots):
            self.thaw(number)
            if slot.alive and slot.process is not None:
                slot.stop_requested = True
                slot.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        for slot in self._slots:
            if slot.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                slot.process.wait(max(0.0, deadline - time.monotonic()))
            if slot.alive:
                self.problems.append(
                    f"{slot.name} did not end after SIGTERM:\n{self._read_output(slot)[-MAX_OUTPUT_CHARS:]}"
                )
            else:
                self._record_exit(slot)

    def close(self) -> None:
        atexit.unregister(self.close)
        for slot in self._slots:
            if slot.alive and slot.process is not None:
                slot.process.kill()
        for slot in self._slots:
            if slot.process is not None:
                slot.process.wait()
                slot.process = None
