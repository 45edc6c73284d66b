"""Temporary files that bound an audit's memory: observations between two passes, results until they are ranked."""

from __future__ import annotations

import json
import struct
import tempfile
from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

from service.contracts import LabelledSentence
from service.errors import SettingsError
from service.judging.types import Observation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

_RECORD_HEADER: Final = struct.Struct("<QQIII")


class _TempFile:
    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="labelwatch-")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def _write(self, *pieces: bytes) -> None:
        try:
            for piece in pieces:
                self._file.write(piece)
        except OSError as error:
            raise SettingsError(
                f"temporary data can't be written to {tempfile.gettempdir()} ({error.strerror or error}): "
                "set TMPDIR to a folder with enough free space"
            ) from error


class ObservationFile(_TempFile):
    """Observations, written and read in order. Numbers come back bit for bit; the sentences without `probabilities`."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, observation: Observation) -> None:
        sentence = observation.sentence.model_dump_json(exclude={"probabilities"}).encode()
        unscored = json.dumps(dict(observation.unscored)).encode() if observation.unscored else b""
        integers = [
            values.astype("<i8") for values in (observation.given, observation.word_index, observation.all_given)
        ]
        header = _RECORD_HEADER.pack(len(sentence), len(unscored), *observation.probs.shape, len(observation.all_given))
        probs = observation.probs.astype("<f8")
        self._write(header, sentence, unscored, *(values.tobytes() for values in (probs, *integers)))
        self._count += 1

    def __iter__(self) -> Iterator[Observation]:
        self._file.seek(0)
        for _ in range(self._count):
            header = self._file.read(_RECORD_HEADER.size)
            sentence_size, unscored_size, rows, columns, words = _RECORD_HEADER.unpack(header)
            sentence = LabelledSentence.model_validate_json(self._file.read(sentence_size))
            reasons = json.loads(self._file.read(unscored_size) or b"{}")
            unscored = {int(index): reason for index, reason in reasons.items()}
            probs = np.frombuffer(self._file.read(8 * rows * columns), "<f8").astype(np.float64)
            given, word_index, all_given = (
                np.frombuffer(self._file.read(8 * size), "<i8").astype(np.intp) for size in (rows, rows, words)
            )
            yield Observation(sentence, probs.reshape(rows, columns), given, word_index, unscored, all_given)


class RankedLineFile(_TempFile):
    """Lines in a file. Memory holds only each line's offset, its priority and whether it is flagged."""

    def __init__(self) -> None:
        super().__init__()
        self._starts = array("Q", [0])
        self._priorities = array("d")
        self._flagged = array("b")

    def __len__(self) -> int:
        return len(self._priorities)

    def add(self, line: str, *, priority: float | None, flagged: bool) -> None:
        """Adds a line. A sentence without a scored word has no priority and ranks last."""
        raw = line.encode()
        self._write(raw)
        self._starts.append(self._starts[-1] + len(raw))
        self._priorities.append(np.inf if priority is None else priority)
        self._flagged.append(flagged)

    def iterate_worst_first(self, *, limit: int | None = None, flagged_only: bool = False) -> Iterator[str]:
        """Yields the lines by priority, lowest first. Lines with equal priority stay in the order they were added."""
        order = np.argsort(np.frombuffer(self._priorities), kind="stable") if len(self) else np.zeros(0, np.intp)
        if flagged_only and len(self):
            order = order[np.frombuffer(self._flagged, np.int8)[order] > 0]
        for index in order[:limit]:
            start, end = self._starts[index], self._starts[index + 1]
            self._file.seek(start)
            yield self._file.read(end - start).decode()
