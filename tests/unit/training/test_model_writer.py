"""A trained folder is written whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from service.errors import InvalidInput
from service.inference.heads.weights import POSITIONS, HeadWeights
from service.inference.model.folder import ModelFolder
from service.inference.model.registry import ModelRegistry
from service.labels import Scheme
from service.training.model_writer import check_model_target, write_model_folder
from service.training.sentences import collect_sentences
from tests.support.training_data import make_training_text

DATA = collect_sentences(make_training_text(200).sentences, Scheme.IOB2)
N_CLASSES = len(DATA.classes)


def write(out: Path, value: float = 1.0) -> None:
    weights = HeadWeights(
        np.zeros((5, 0, POSITIONS * N_CLASSES), np.float32),
        np.full((5, POSITIONS, N_CLASSES), value, np.float32),
        np.zeros((5, 1 << 15, N_CLASSES), np.float32),
    )
    sums = {"sums": [1.0] * N_CLASSES, "counts": [1] * N_CLASSES}
    n_types = len(DATA.types) + 1
    write_model_folder(
        out,
        name=out.name,
        data=DATA,
        weights=weights,
        encoder=None,
        held_out=sums,
        held_out_types={"sums": [1.0] * n_types, "counts": [1] * n_types},
        figures={},
        training={},
    )


def test_a_full_disk_leaves_the_old_model_and_no_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "med")
    before = ModelFolder.load(tmp_path / "med").fingerprint

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(HeadWeights, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "med", 2.0)
    assert ModelFolder.load(tmp_path / "med").fingerprint == before
    assert [path.name for path in tmp_path.iterdir()] == ["med"]


def test_two_writers_of_one_name_leave_one_whole_model(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda value: write(tmp_path / "med", value), [1.0, 2.0, 3.0] * 10))
    ModelFolder.load(tmp_path / "med")
    assert [path.name for path in tmp_path.iterdir()] == ["med"]


def test_a_writer_that_is_overtaken_replaces_the_other_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, rename = tmp_path / "med", Path.replace
    overtaken: list[Path] = []

    def rename_late(path: Path, target: Path) -> Path:
        if target == out and not overtaken:
            overtaken.append(path)
            write(out, 3.0)
        return rename(path, target)

    write(out, 1.0)
    monkeypatch.setattr(Path, "replace", rename_late)
    write(out, 2.0)
    assert overtaken
    assert HeadWeights.load(out / "heads.npz").offsets.min() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["med"]


def test_a_target_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InvalidInput, match="set LABELWATCH_MODELS_PATH to a folder that can be written to"):
        check_model_target(tmp_path / "file" / "models" / "med")
    check_model_target(tmp_path / "new" / "models" / "med")
    assert not (tmp_path / "new").exists()


def test_a_name_that_is_taken_while_a_model_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "source")
    registry = ModelRegistry(tmp_path / "models")
    copy = shutil.copytree

    def copy_slowly(source: Path, target: Path, *, dirs_exist_ok: bool) -> None:
        copy(source, target, dirs_exist_ok=dirs_exist_ok)
        write(tmp_path / "models" / "med")

    monkeypatch.setattr(shutil, "copytree", copy_slowly)
    with pytest.raises(InvalidInput, match="has a model 'med': remove it first"):
        registry.add(tmp_path / "source", "med")
    assert [path.name for path in registry.path.iterdir()] == ["med"]
    registry.remove("med")
    assert list(registry.path.iterdir()) == []
