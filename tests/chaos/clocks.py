"""Wall clocks of workers that jump. Monotonic time goes on as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SEAM = Path(__file__).with_name("clock_seam")


class WorkerClocks:
    """An offset per worker, in a file that the worker reads."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._files = [folder / f"clock-{number}" for number in range(workers)]
        for number in range(workers):
            self.set_offset(number, 0)

    def set_offset(self, number: int, seconds: int) -> None:
        temporary = self._files[number].with_suffix(".new")
        temporary.write_text(str(seconds))
        temporary.replace(self._files[number])

    def get_environment(self, number: int) -> Mapping[str, str]:
        """What the environment of a worker needs, beside the folder `SEAM` in its PYTHONPATH."""
        return {"CHAOS_CLOCK_FILE": str(self._files[number])}
