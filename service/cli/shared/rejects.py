"""Sentences that can't be judged: stops at the first one, or lists them all and goes on with the rest."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from service.cli.shared.terminal import STDOUT, open_output, print_stderr
from service.errors import UnknownLabelError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from service.errors import LabelwatchError
    from service.formats.records import FileRecord

OnError = Literal["stop", "skip"]


class RejectHandler:
    """Called with each sentence that fails. Lists it in a file beside the output, or on stderr if there is none."""

    def __init__(self, on_error: OnError, output: str | None) -> None:
        self.stops_on_error = on_error == "stop"
        self.path = None if self.stops_on_error or output in (None, STDOUT) else _derive_rejects_path(Path(str(output)))
        self.count = 0
        self.first_error = ""
        self._stack = ExitStack()
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, at)
        if kind is None and self.path is not None and not self.count:
            # The list of an earlier run would be read as this one's. A run that fails leaves it, and the earlier output.
            self.path.unlink(missing_ok=True)

    def __call__(self, record: FileRecord, error: LabelwatchError) -> None:
        reason = error.cli_message if isinstance(error, UnknownLabelError) else str(error)
        message = reason if record.error is error else f"{record.location}: {reason}"
        if self.stops_on_error:
            raise error if record.error is error else type(error)(message) from error
        self.count += 1
        self.first_error = self.first_error or message
        if self.path is None:
            print_stderr(f"labelwatch: skipped {message}")
            return
        if self._file is None:
            self._file = self._stack.enter_context(open_output(str(self.path)))
        line = {
            "place": record.location,
            "id": record.sentence.id if record.sentence is not None else None,
            "stage": error.stage,
            "reason": reason.removeprefix(f"{record.location}: "),
        }
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _derive_rejects_path(output: Path) -> Path | None:
    if output.exists() and not output.is_file():  # no file goes beside a pipe or /dev/null
        return None
    return output.with_name(f"{output.stem}.rejected.jsonl")
