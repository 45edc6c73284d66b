"""Starts a training process, passes on its progress, and ends it when asked to."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Final, Self

from pydantic import ValidationError

from service.runtime.lifecycle.child_process import END_TIMEOUT_S, describe_end, end_process
from service.runtime.training.messages import TRAINING_MESSAGE, FailedMessage, ProgressMessage

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from service.runtime.training.messages import OutcomeMessage

CHILD_MODULE: Final = "service.runtime.training.child"
# Numpy's BLAS takes as many threads as there are cores, unless one of these says otherwise when it is loaded.
BLAS_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class TrainingProcess:
    """A running training. Leaving the context ends it."""

    def __init__(self, *, dataset: str, model: str, in_use: Path | None, threads: int) -> None:
        """`in_use`: the folder of the model to compare with."""
        command = [sys.executable, "-m", CHILD_MODULE, "--dataset", dataset, "--model", model]
        if in_use is not None:
            command += ["--compare-with", str(in_use)]
        self._messages: queue.SimpleQueue[ProgressMessage | OutcomeMessage] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # it ends when this closes, which the operating system does if this process is killed
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(BLAS_VARIABLES, str(threads))},
            start_new_session=True,  # Ctrl-C is for the service, which then ends the training
        )
        self._reader = threading.Thread(target=self._read_messages, name="training", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self, timeout: float) -> ProgressMessage | OutcomeMessage | None:
        """The next message, or None if there is none in time. The last one is the outcome."""
        try:
            return self._messages.get(timeout=timeout)
        except queue.Empty:
            return None

    def _read_messages(self) -> None:
        has_outcome = False
        for line in self._process.stdout or ():
            try:
                message = TRAINING_MESSAGE.validate_json(line)
            except ValidationError:  # a library printed something
                continue
            has_outcome = not isinstance(message, ProgressMessage)
            self._messages.put(message)
        if not has_outcome:
            self._messages.put(FailedMessage(reason=f"the training process {describe_end(self._process.wait())}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end_process(self._process)
        self._reader.join(END_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def describe_timeout(seconds: float) -> str:
    return f"it took longer than {seconds:g} s (the limit is LABELWATCH_TRAINER_TIMEOUT_S)"
