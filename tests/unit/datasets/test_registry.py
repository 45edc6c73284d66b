"""Settings in force, read from the records of the datasets topic."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from service.contracts import LabelledSentence
from service.datasets.registry import DatasetRegistry, check_dataset_exists
from service.errors import InvalidInput, MissingModelError, UnknownDatasetError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import Record
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path


def apply(registry: DatasetRegistry, *records: tuple[str, dict[str, object] | None]) -> None:
    registry.apply_records(
        Record("datasets", 0, offset, key.encode(), None if value is None else json.dumps(value).encode())
        for offset, (key, value) in enumerate(records)
    )


def test_the_newest_version_is_in_force_and_a_tombstone_restores_the_defaults(registry: DatasetRegistry) -> None:
    apply(
        registry,
        ("news", {"name": "news", "version": 2, "method": "product"}),
        ("news", {"name": "news", "version": 1}),
    )
    state = registry.get_settings_state("news")
    assert (state.in_force.version, state.in_force.method, state.problem) == (2, "product", None)
    assert (state.latest.version, state.latest.position) == (2, (0, 1))
    apply(registry, ("news", None))
    state = registry.get_settings_state("news")
    assert (state.in_force.version, state.latest.settings, state.next_version) == (0, None, 1)


def test_settings_under_the_key_of_another_dataset_are_refused(registry: DatasetRegistry) -> None:
    """Compaction works by key: such a record could neither be replaced nor removed by the dataset's own."""
    apply(registry, ("news", {"name": "other", "version": 7, "method": "product"}))
    assert registry.get_settings_state("other").in_force.version == 0
    state = registry.get_settings_state("news")
    assert (state.in_force.version, state.latest.version) == (0, 0)
    assert state.problem == "`name`: the record's key is 'news', its name is 'other': write the same name in both"


def test_no_stored_settings_can_end_the_process(registry: DatasetRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are set aside, whatever is wrong with them: otherwise the process would end again at each start."""

    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    with monkeypatch.context() as patch:
        patch.setattr(registry, "build_judge", fail)
        apply(registry, ("news", {"name": "news", "version": 1}))
    apply(registry, ("large", {"name": "large", "label_map": {f"T{n}": "PER" for n in range(1_001)}}))
    apply(registry, ("usable", {"name": "usable", "version": 1, "method": "product"}))
    assert set(registry.refused_settings) == {"news", "large"}
    assert registry.refused_settings["news"] == "an error of labelwatch, RecursionError: too deep"
    assert "at most 1000 entries" in registry.refused_settings["large"]
    assert registry.get_judge("usable").settings.method == "product"
    assert registry.get_judge("news").settings.version == 0


def test_settings_that_do_not_fit_leave_the_older_ones_in_force(registry: DatasetRegistry) -> None:
    apply(
        registry, ("news", {"name": "news", "version": 1}), ("news", {"name": "news", "version": 2, "method": "best"})
    )
    state = registry.get_settings_state("news")
    assert (state.in_force.version, state.latest.version, state.next_version) == (1, 2, 3)
    assert state.problem is not None
    assert "unknown method 'best'" in state.problem


def test_asking_for_the_settings_of_a_dataset_does_not_create_it(registry: DatasetRegistry) -> None:
    assert registry.get_settings_state("nobody").in_force.name == "nobody"
    assert registry.names == ()


def test_datasets_are_listed_by_settings_and_statistics_but_not_by_impossible_names(registry: DatasetRegistry) -> None:
    apply(
        registry,
        ("news", {"name": "news"}),
        ("odd", {"name": "odd", "method": "best"}),
        ("Not A Name", {"name": "news", "version": 3}),
    )
    assert registry.list_names({"seen"}) == ("news", "odd", "seen")


def test_an_unknown_dataset_is_answered_with_the_known_ones() -> None:
    check_dataset_exists("a", ("a", "b"))
    with pytest.raises(UnknownDatasetError, match=r"'c' is not known: the datasets are a, b$"):
        check_dataset_exists("c", ("a", "b"))
    with pytest.raises(UnknownDatasetError, match=r"is not known: there are no datasets yet$"):
        check_dataset_exists("c", ())
    with pytest.raises(UnknownDatasetError, match=r"19, …$"):
        check_dataset_exists("c", tuple(str(number) for number in range(30)))


# -- models of the registry --------------------------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def with_models(tiny_model: Path, models: Path) -> DatasetRegistry:
    return DatasetRegistry(
        make_pool(Classifier(ModelFolder.load(tiny_model)), models), max_datasets=2, min_words=1, prior_words=0
    )


def test_settings_whose_model_is_missing_are_in_force_and_judged_when_it_appears(
    with_models: DatasetRegistry, models: Path
) -> None:
    apply(with_models, ("med", {"name": "med", "version": 1, "model": "med-v1", "method": "product"}))
    state = with_models.get_settings_state("med")
    assert (state.in_force.model, state.problem) == ("med-v1", None)
    assert "med" in with_models
    assert with_models.list_names() == ("med",)
    with pytest.raises(MissingModelError, match=r"dataset 'med' needs the model 'med-v1': .*models has no model"):
        with_models.get_judge("med")
    folder = ModelFolder.load(make_model(models / "med-v1", "wordpiece", seed=1))
    judge = with_models.get_judge("med")
    assert (judge.model.fingerprint, judge.settings.method) == (folder.fingerprint, "product")
    assert with_models.get_judge("med") is judge
    assert with_models.get_judge("other").model.fingerprint != folder.fingerprint, "the default model judges the rest"


def test_other_contents_than_the_settings_name_are_a_missing_model(with_models: DatasetRegistry, models: Path) -> None:
    expected = ModelFolder.load(make_model(models / "med", "wordpiece", seed=1)).fingerprint
    apply(with_models, ("med", {"name": "med", "version": 1, "model": "med", "model_fingerprint": expected}))
    judge = with_models.get_judge("med")
    shutil.rmtree(models / "med")
    found = ModelFolder.load(make_model(models / "med", "wordpiece", seed=2)).fingerprint
    with pytest.raises(MissingModelError) as missing:
        with_models.get_judge("med")
    assert expected[:12] in str(missing.value)
    assert found[:12] in str(missing.value)
    apply(with_models, ("med", {"name": "med", "version": 2, "model": "med"}))
    accepted = with_models.get_judge("med")
    assert (accepted.model.fingerprint, accepted.stats_key != judge.stats_key) == (found, True)


def test_settings_that_do_not_fit_a_late_model_wait_as_well(with_models: DatasetRegistry, models: Path) -> None:
    apply(with_models, ("med", {"name": "med", "version": 1, "model": "med", "label_map": {"X": "DRUG"}}))
    make_model(models / "med", "wordpiece", seed=1)
    with pytest.raises(MissingModelError, match=r"settings of the dataset 'med' don't fit its model 'med'.*DRUG"):
        with_models.get_judge("med")
    assert "DRUG" in (with_models.get_settings_state("med").problem or "")
    apply(with_models, ("med", {"name": "med", "version": 2, "model": "med"}))
    assert with_models.get_judge("med").settings.version == 2
    assert with_models.get_settings_state("med").problem is None


def test_probabilities_of_their_own_need_no_model(with_models: DatasetRegistry) -> None:
    apply(with_models, ("med", {"name": "med", "version": 1, "model": "med"}))
    sentence = LabelledSentence.model_validate(
        {
            "dataset": "med",
            "tokens": ["aspirin"],
            "labels": ["DRUG"],
            "probabilities": {"classes": ["O", "DRUG"], "words": [[0.1, 0.9]]},
        }
    )
    assert with_models.get_sentence_judge(sentence).classes == ("O", "DRUG")


def test_a_dataset_that_waits_for_its_model_counts_towards_the_limit(with_models: DatasetRegistry) -> None:
    apply(with_models, ("med", {"name": "med", "version": 1, "model": "med"}))
    with_models.get_judge("first")
    with pytest.raises(InvalidInput, match="'second' would be dataset number 3"):
        with_models.get_judge("second")
