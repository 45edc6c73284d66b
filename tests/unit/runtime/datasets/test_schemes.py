"""The scheme that a dataset's labels are written in."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from service.labels import Scheme
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.runtime.datasets.schemes import DatasetSchemes
from service.settings import Settings
from service.settings.groups import LogSettings, ModelSettings, ModelsSettings
from tests.support.tiny_models import make_model
from tests.support.waiting_datasets import put_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_a_dataset_has_its_own_scheme_else_that_of_its_model(tmp_path: Path) -> None:
    make_model(tmp_path / "models" / "io", "wordpiece", labels=("O", "DRUG", "DOSE"))
    make_model(tmp_path / "default", "wordpiece", labels=("O", "B-PER", "I-PER"))
    settings = Settings(
        model=ModelSettings(folder=tmp_path / "default"),
        models=ModelsSettings(path=tmp_path / "models"),
        log=LogSettings(path=tmp_path / "log.sqlite"),
    )
    topics = Topics()
    with closing(SqliteLog(tmp_path / "log.sqlite", topics)) as log:
        put_settings(log, topics, name="own", scheme="biluo", model="io")
        put_settings(log, topics, name="med", model="io")
        put_settings(log, topics, name="absent", model="gone")
        schemes = DatasetSchemes(settings, log, topics)
        found = {name: schemes.get(name) for name in ("own", "med", "absent", "other")}
    assert found == {"own": Scheme.BILUO, "med": Scheme.IO, "absent": Scheme.IOB2, "other": Scheme.IOB2}
