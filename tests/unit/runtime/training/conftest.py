"""An embedded log and a model registry, which the environment names as for the service."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from service.log.codec import build_sentence_message
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.settings import read_settings
from tests.support.training_data import make_training_text

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.protocol import Record
    from service.settings import Settings

TOPICS = Topics()


class Installation(NamedTuple):
    """Where the log and the registry of a service are."""

    folder: Path
    settings: Settings

    @property
    def models(self) -> Path:
        return self.settings.models.path

    def store(self, n: int, *, seed: int = 3, n_errors: int = 0, dataset: str = "med", **fields: Any) -> set[int]:
        """Appends sentences to the input topic. Returns the numbers of those with a planted error."""
        text = make_training_text(n, seed=seed, n_errors=n_errors)
        messages = [
            build_sentence_message(TOPICS.sentences, each.model_copy(update={"dataset": dataset, **fields}))
            for each in text.sentences
        ]
        with closing(SqliteLog(self.settings.log.path, TOPICS)) as log:
            log.append(messages)
        return text.wrong

    def read(self, topic: str) -> list[Record]:
        with closing(SqliteLog(self.settings.log.path, TOPICS)) as log:
            return log.read(topic, 0, 1_000_000)


@pytest.fixture
def installation(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    for name, value in {
        "LOG_PATH": tmp_path / "log.sqlite",
        "MODELS_PATH": tmp_path / "models",
        "MODEL_FOLDER": tiny_model,
        "TRAINER_ENCODER": "none",
        "LOGS_LEVEL": "error",
    }.items():
        monkeypatch.setenv(f"LABELWATCH_{name}", str(value))
    return Installation(tmp_path, read_settings())
