from __future__ import annotations

import errno
import gc
import shutil
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from service.errors import MissingModelError, ModelError
from service.inference.classifier import Classifier
from service.inference.model import pool as pool_module
from service.inference.model.folder import ModelFolder
from service.inference.model.pool import ModelPool
from service.inference.model.registry import ModelRegistry
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder.load(make_model(tmp_path_factory.mktemp("default"), "wordpiece"))


def open_pool(default: ModelFolder, models: Path, **options: Any) -> ModelPool:
    return ModelPool(default, ModelRegistry(models), **{"check_interval_s": 0.0, **options})


def replace_model(folder: Path, seed: int) -> None:
    shutil.rmtree(folder)
    make_model(folder, "wordpiece", seed=seed)


def test_the_default_model_is_loaded_once_on_first_use(default: ModelFolder, tmp_path: Path) -> None:
    pool = open_pool(default, tmp_path)
    assert pool.get_folder(None) is pool.get_folder(None, default.fingerprint) is default
    assert pool.find_classifier(default) is None
    classifier = pool.get_classifier(default)
    assert pool.get_classifier(default) is pool.find_classifier(default) is classifier


def test_a_model_of_the_registry_is_the_same_folder_until_its_files_change(
    default: ModelFolder, tmp_path: Path
) -> None:
    make_model(tmp_path / "med", "wordpiece", seed=1)
    pool = open_pool(default, tmp_path)
    folder = pool.get_folder("med")
    assert folder.path == tmp_path / "med"
    assert pool.get_folder("med", folder.fingerprint) is folder
    replace_model(tmp_path / "med", seed=2)
    changed = pool.get_folder("med")
    assert changed.fingerprint != folder.fingerprint


def test_a_model_that_is_part_of_labelwatch_needs_no_registry_and_yields_to_one_of_its_name(
    default: ModelFolder, tmp_path: Path
) -> None:
    registry, pool = ModelRegistry(tmp_path / "models"), open_pool(default, tmp_path / "models")
    light = pool.get_folder("light")
    assert light.name == "labelwatch-light-en"
    assert pool.get_folder("light", light.fingerprint) is light
    with pytest.raises(ModelError, match="light is part of labelwatch and can't be removed"):
        registry.remove("light")
    assert light.path.is_dir()
    make_model(tmp_path / "models" / "light", "wordpiece", seed=1)
    assert pool.get_folder("light").path == tmp_path / "models" / "light" == registry.resolve("light")


def test_a_folder_is_looked_at_only_once_per_interval(default: ModelFolder, tmp_path: Path) -> None:
    make_model(tmp_path / "med", "wordpiece", seed=1)
    pool = open_pool(default, tmp_path, check_interval_s=3600.0)
    folder = pool.get_folder("med")
    replace_model(tmp_path / "med", seed=2)
    assert pool.get_folder("med") is folder


def test_a_missing_model_says_where_it_belongs_and_is_found_when_it_appears(
    default: ModelFolder, tmp_path: Path
) -> None:
    pool = open_pool(default, tmp_path / "models")
    with pytest.raises(
        MissingModelError, match=r"models has no model 'med': it is empty.*labelwatch model add.*`model`"
    ):
        pool.get_folder("med")
    make_model(tmp_path / "models" / "med", "wordpiece", seed=1)
    folder = pool.get_folder("med")
    shutil.rmtree(tmp_path / "models" / "med")
    with pytest.raises(MissingModelError, match="has no model 'med'"):
        pool.get_folder("med")
    with pytest.raises(MissingModelError, match="has changed"):
        pool.get_classifier(folder)


@pytest.mark.parametrize("name", [None, "med"])
def test_other_contents_than_expected_name_both_fingerprints(
    default: ModelFolder, tmp_path: Path, name: str | None
) -> None:
    make_model(tmp_path / "med", "wordpiece", seed=1)
    pool = open_pool(default, tmp_path)
    fingerprint = pool.get_folder(name).fingerprint
    with pytest.raises(MissingModelError) as missing:
        pool.get_folder(name, "ab" * 32)
    assert fingerprint[:12] in str(missing.value)
    assert "expected is abababababab" in str(missing.value)


def test_a_model_that_can_not_be_used_is_missing_until_its_files_change(default: ModelFolder, tmp_path: Path) -> None:
    model = make_model(tmp_path / "med", "wordpiece", seed=1)
    graph = ModelFolder.load(model).graph
    assert graph is not None
    graph.write_bytes(b"not a graph")
    pool = open_pool(default, tmp_path)
    with pytest.raises(MissingModelError, match=r"model\.onnx") as unusable:
        pool.get_classifier(pool.get_folder("med"))
    with pytest.raises(MissingModelError, match=r"model\.onnx"):  # without another attempt to load it
        pool.get_folder("med")
    assert "med" in str(unusable.value)
    replace_model(model, seed=2)
    assert pool.get_classifier(pool.get_folder("med")).infer([["the", "timber"]])


def test_a_folder_that_could_not_be_read_for_a_moment_is_read_again(
    default: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files do not change: a volume did not answer, or there were too many open files."""
    make_model(tmp_path / "med", "wordpiece", seed=1)
    pools = [open_pool(default, tmp_path, retry_interval_s=seconds) for seconds in (0.0, 3600.0)]
    with monkeypatch.context() as patch:
        patch.setattr(ModelFolder, "load", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        for pool in pools:
            with pytest.raises(MissingModelError, match="Too many open files"):
                pool.get_folder("med")
    assert pools[0].get_folder("med").path == tmp_path / "med"
    with pytest.raises(MissingModelError, match="Too many open files"):  # not at every call
        pools[1].get_folder("med")


def test_a_model_that_could_not_be_loaded_for_a_moment_is_loaded_again(
    default: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(tmp_path / "med", "wordpiece", seed=1)
    pool = open_pool(default, tmp_path, retry_interval_s=0.0)
    folder = pool.get_folder("med")
    with monkeypatch.context() as patch:
        patch.setattr(pool_module, "Classifier", Mock(side_effect=ModelError("failed to allocate memory")))
        with pytest.raises(MissingModelError, match="failed to allocate memory"):
            pool.get_classifier(folder)
    assert pool.get_classifier(pool.get_folder("med")).infer([["the"]])


def test_the_least_recently_used_model_is_closed_and_its_memory_is_freed(
    default: ModelFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[tuple[str, str]] = []
    for seed, name in enumerate("abc", 1):
        make_model(tmp_path / name, "wordpiece", seed=seed)
    pool = open_pool(
        default,
        tmp_path,
        max_loaded=2,
        on_load=lambda classifier: events.append(("load", classifier.folder.path.name)),
        on_close=lambda classifier: events.append(("close", classifier.folder.path.name)),
    )
    pool.get_classifier(default)
    folders = {name: pool.get_folder(name) for name in "abc"}
    closed = weakref.ref(pool.get_classifier(folders["b"]))
    pool.get_classifier(folders["a"])
    with caplog.at_level("INFO"):
        pool.get_classifier(folders["c"])
    assert events[1:] == [("load", "b"), ("load", "a"), ("load", "c"), ("close", "b")]
    assert "model b is closed: 2 others were used since" in caplog.text
    gc.collect()
    assert closed() is None
    assert pool.find_classifier(default) is not None
    assert pool.find_classifier(folders["a"]) is not None
    assert pool.get_classifier(folders["b"]).folder is folders["b"], "it is loaded again"


def test_a_model_whose_folder_changes_is_closed(default: ModelFolder, tmp_path: Path) -> None:
    make_model(tmp_path / "med", "wordpiece", seed=1)
    closed: list[Classifier] = []
    pool = open_pool(default, tmp_path, on_close=closed.append)
    classifier = pool.get_classifier(pool.get_folder("med"))
    replace_model(tmp_path / "med", seed=2)
    pool.get_folder("med")
    assert closed == [classifier]
    assert classifier.infer([["the"]]), "who holds it may go on"


def test_a_folder_is_found_while_another_model_is_being_loaded(
    default: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop of the API asks for folders: it must not wait the seconds that a model takes."""
    for seed, name in enumerate("ab", 1):
        make_model(tmp_path / name, "wordpiece", seed=seed)
    closed: list[Classifier] = []
    pool = open_pool(default, tmp_path, on_close=closed.append)
    folder, loading, go_on = pool.get_folder("a"), threading.Event(), threading.Event()

    def load_slowly(*arguments: Any, **options: Any) -> Classifier:
        classifier = Classifier(*arguments, **options)
        loading.set()
        assert go_on.wait(60)
        return classifier

    monkeypatch.setattr(pool_module, "Classifier", load_slowly)
    with ThreadPoolExecutor(2) as executor:
        loaded = executor.submit(pool.get_classifier, folder)
        assert loading.wait(60)
        found = executor.submit(pool.get_folder, "b")
        try:
            assert found.result(60).path == tmp_path / "b"
        finally:
            go_on.set()
        assert loaded.result(60) is pool.find_classifier(folder)
    assert not closed


def test_threads_share_one_copy_of_each_model(default: ModelFolder, tmp_path: Path) -> None:
    for seed, name in enumerate("ab", 1):
        make_model(tmp_path / name, "wordpiece", seed=seed)
    loaded: list[Classifier] = []
    pool = open_pool(default, tmp_path, on_load=loaded.append, max_loaded=2)
    barrier = threading.Barrier(6)

    def load(name: str) -> Classifier:
        barrier.wait()
        return pool.get_classifier(pool.get_folder(name))

    with ThreadPoolExecutor(6) as threads:
        classifiers = list(threads.map(load, "ababab"))
    assert len(set(classifiers)) == len(loaded) == 2
