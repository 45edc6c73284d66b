"""Real workers as processes: started as a user would, killed, stopped, and started again when they end."""

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

from service.log.kafka.library_fixes.watchdog import EXIT_STATUS as HUNG
from tests.kafka.broker import SHIM

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND = (str(Path(sys.executable).with_name("labelwatch")), "worker")
HAS_PARTITIONS = "assigned partitions: ["
DRAIN_TIMEOUT_S = 180.0
MAX_OUTPUT_CHARS = 4_000
# Ends that are meant: whoever runs workers starts them again.
FENCED_MESSAGES = ("another process uses the transactional id", "another process uses the worker id")


@dataclass(slots=True)
class WorkerSlot:
    """A worker's place: its process comes and goes."""

    name: str
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    stop_requested: bool = False  # to end, by a signal of ours
    start_at: float = 0.0  # when to start it

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class WorkerProcesses:
    """Numbered from 0. Only one thread may use it, and it must live as long as the workers: they end with it."""

    folder: Path
    environment: Mapping[str, str]
    identities: tuple[str | None, ...]
    problems: list[str] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)  # why workers ended by themselves, and how often
    starts: int = 0
    _slots: list[WorkerSlot] = field(default_factory=list)

    def __enter__(self) -> WorkerProcesses:
        atexit.register(self.close)
        for number, identity in enumerate(self.identities):
            given = {**os.environ, **self.environment}
            given |= {"LABELWATCH_WORKER_ID": identity} if identity else {}
            self._slots.append(WorkerSlot(f"worker {number}", given, self.folder / f"worker-{number}.log"))
        self.supervise()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def supervise(self) -> None:
        """Starts what is due, and notes who has ended."""
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
                env=slot.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for the harness, which then ends its workers
            )
        slot.frozen = slot.stop_requested = False

    def _record_exit(self, slot: WorkerSlot) -> None:
        assert slot.process is not None
        status, asked = slot.process.returncode, slot.stop_requested
        slot.process = None
        if asked and status in (0, -signal.SIGKILL):
            return
        told = self._read_output(slot)[-MAX_OUTPUT_CHARS:]
        if asked and status == -signal.SIGTERM and len(told.splitlines()) <= 1:
            return  # asked before it could listen, or say anything: it had nothing to finish
        if status == HUNG:
            why = "hung"
        elif status == 1 and any(sentence in told for sentence in FENCED_MESSAGES):
            why = "fenced"
        else:
            why = f"status {status}"
            self.problems.append(f"{slot.name} ended with status {status}:\n{told}")
        self.exits[why] = self.exits.get(why, 0) + 1

    @staticmethod
    def _read_output(slot: WorkerSlot) -> str:
        """All that it has said since it was started."""
        return slot.log.read_bytes().rpartition(b"--- start ")[2].decode(errors="replace")

    def has_partitions(self, number: int) -> bool:
        """Whether it has been given partitions since it was started, as it tells in its log."""
        slot = self._slots[number]
        return slot.alive and not slot.frozen and HAS_PARTITIONS in self._read_output(slot)

    def get_pid(self, number: int) -> int:
        process = self._slots[number].process
        assert process is not None, "it does not run"
        return process.pid

    # -- what may happen to a worker -------------------------------------------------------------------------------

    def kill(self, number: int, *, pause: float) -> bool:
        """Kills it without warning; it is started again after `pause`. False where there is nobody to kill."""
        return self._stop_with(number, signal.SIGKILL, pause)

    def terminate(self, number: int, *, pause: float) -> bool:
        """Asks it to end, as an orchestrator does."""
        return self._stop_with(number, signal.SIGTERM, pause)

    def _stop_with(self, number: int, with_signal: signal.Signals, pause: float) -> bool:
        slot = self._slots[number]
        if not slot.alive or slot.frozen or slot.stop_requested:
            return False
        assert slot.process is not None
        slot.stop_requested, slot.start_at = True, time.monotonic() + pause
        slot.process.send_signal(with_signal)
        return True

    def freeze(self, number: int) -> bool:
        """Freezes it, so that it can't know how time goes by."""
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
        """Asks all to end in order, which they must do by themselves."""
        for number, slot in enumerate(self._slots):
            self.thaw(number)
            if slot.alive and slot.process is not None:
                slot.stop_requested = True
                slot.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + DRAIN_TIMEOUT_S
        for slot in self._slots:
            if slot.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                slot.process.wait(max(0.0, until - time.monotonic()))
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
