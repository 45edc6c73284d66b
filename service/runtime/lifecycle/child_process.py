"""How a process of the service's own is ended, and how its end is described."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import subprocess

END_TIMEOUT_S: Final = 10.0


def end_process(process: subprocess.Popen[Any]) -> None:
    """Kills it if it runs. It must hold nothing that would have to be given back."""
    if process.poll() is None:
        process.kill()
    process.wait(END_TIMEOUT_S)


def describe_end(code: int) -> str:
    """The predicate of a sentence about a process with this exit code."""
    if code < 0:
        name = signal.Signals(-code).name
        return f"was ended by {name}{': there may not be enough memory' if -code == signal.SIGKILL else ''}"
    return f"ended with exit code {code}; its messages are in the log"
