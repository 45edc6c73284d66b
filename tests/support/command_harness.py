"""Runs commands on an embedded log in a folder, in this process or in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.cli.main import main
from service.contracts import Assessment, DatasetSettings
from service.log.protocol import Output, Record
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from tests.support.tiny_models import LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "in", "Oslo"]


def make_sentences(
    n: int, *, seed: int = 0, labels: Sequence[str] = LABELS, **fields: object
) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    sentences: list[dict[str, object]] = []
    for number in range(n):
        size = int(rng.integers(1, 9))
        given = [labels[k] for k in rng.integers(0, len(labels), size)]
        sentences.append(
            {"id": f"{seed}-{number}", "tokens": rng.choice(WORDS, size).tolist(), "labels": given, **fields}
        )
    return sentences


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str


@dataclass
class CommandHarness:
    folder: Path
    model: Path
    variables: dict[str, str] = field(default_factory=dict)
    capfd: pytest.CaptureFixture[str] | None = None
    topics: Topics = field(default_factory=Topics)
    program: str = "from service.cli.main import main; main()"  # of `start`

    @property
    def log_path(self) -> Path:
        return self.folder / "log.sqlite"

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a worker that learns from the first word. Nothing comes from the caller's environment."""
        return {
            "LABELWATCH_LOG_PATH": str(self.log_path),
            "LABELWATCH_MODEL_FOLDER": str(self.model),
            "LABELWATCH_WORKER_MIN_WORDS": "1",
            **self.variables,
        }

    def run(self, *arguments: object, **variables: str) -> CommandResult:
        """`labelwatch ARGUMENTS` in this process, as the installed command does."""
        assert self.capfd is not None
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("LABELWATCH_")]:
                patch.delenv(name)
            for name, value in {**self.environment, **variables}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["labelwatch", *map(str, arguments)])
            self.capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
        sys.stdout.flush()
        out, err = self.capfd.readouterr()
        code = ended.value.code
        return CommandResult(code if isinstance(code, int) else int(code is not None), out, err)

    def start(self, *arguments: object, **variables: str) -> subprocess.Popen[str]:
        """`labelwatch ARGUMENTS` in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", self.program, *map(str, arguments)],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    # -- files and records -----------------------------------------------------------------------------------------

    def write_file(self, content: Iterable[object], name: str = "data.jsonl") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in content))
        return path

    def append(self, *outputs: Output) -> None:
        log = SqliteLog(self.log_path, self.topics)
        log.append(outputs)
        log.close()

    def append_settings(self, **fields: object) -> None:
        settings = DatasetSettings.model_validate(fields)
        self.append(Output(self.topics.datasets, settings.name.encode(), settings.model_dump_json().encode()))

    def read_records(self, topic: str) -> list[Record]:
        log = SqliteLog(self.log_path, self.topics)
        try:
            return log.read(topic, 0, 1_000_000)
        finally:
            log.close()

    def read_assessments(self, topics: Topics | None = None) -> list[Assessment]:
        records = self.read_records((topics or self.topics).review)
        return [Assessment.model_validate_json(record.value or b"") for record in records]
