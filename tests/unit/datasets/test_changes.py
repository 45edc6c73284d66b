"""Changes of settings, as REST and the command line make them."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from service.cli.datasets.assignments import parse_assignments
from service.contracts import DatasetSettings
from service.datasets.changes import merge_settings, raise_epoch, replace_settings, write_change
from service.datasets.registry import DatasetRegistry
from service.errors import ConflictError, InvalidInput, VersionMismatchError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import Output, Record
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.datasets.changes import SettingsChange

TOPICS = Topics()


def apply(registry: DatasetRegistry, *values: dict[str, Any] | None, key: bytes = b"news") -> None:
    for offset, value in enumerate(values):
        encoded = None if value is None else json.dumps(value).encode()
        registry.apply_records([Record(TOPICS.datasets, 0, offset, key, encoded)])


def merge(registry: DatasetRegistry, changes: dict[str, Any], **options: Any) -> SettingsChange:
    return merge_settings(registry.get_settings_state("news"), changes, build_judge=registry.build_judge, **options)


def replace(registry: DatasetRegistry, fields: dict[str, Any], **options: Any) -> SettingsChange:
    return replace_settings(registry.get_settings_state("news"), fields, build_judge=registry.build_judge, **options)


# -- what is written ---------------------------------------------------------------------------------------------------


def test_the_first_change_creates_the_dataset(registry: DatasetRegistry) -> None:
    change = merge(registry, {"method": "product"})
    assert change.settings == DatasetSettings(name="news", version=1, method="product")
    assert change.fields == {"name": "news", "version": 1, "method": "product"}
    assert change.builds_on is None
    assert change.judge.settings == change.settings


def test_only_what_was_set_is_written_and_unknown_fields_survive_a_merge(registry: DatasetRegistry) -> None:
    apply(registry, {"name": "news", "version": 4, "epoch": 2, "method": "product", "from_tomorrow": [1]})
    merged = merge(registry, {"control_share": 0.1, "method": None})
    assert merged.fields == {"name": "news", "version": 5, "epoch": 2, "control_share": 0.1, "from_tomorrow": [1]}
    replaced = replace(registry, {"control_share": 0.1})
    assert replaced.fields == {"name": "news", "version": 5, "epoch": 2, "control_share": 0.1}


@pytest.mark.parametrize(
    ("assignments", "patch"),
    [
        (["label_map.PLACE="], {"label_map": {"PLACE": None}}),
        (["label_map.PLACE=null"], {"label_map": {"PLACE": None}}),
        (["label_map=null"], {"label_map": None}),
        (["label_map="], {"label_map": None}),
        (['label_map={"FIRM": "ORG"}'], {"label_map": {"FIRM": "ORG"}}),
        (["label_map={}"], {"label_map": {}}),
        (["forget_after_days="], {"forget_after_days": None}),
        (["method=null", "label_map.FIRM=ORG"], {"method": None, "label_map": {"FIRM": "ORG"}}),
        (["flag_policy=null"], {"flag_policy": None}),
        (["flag_policy=confident"], {"flag_policy": {"kind": "confident"}}),
        (["flag_policy.share=0.1"], {"flag_policy": {"share": 0.1}}),
        (["flag_policy.cut=0.2", "flag_policy.kind=below"], {"flag_policy": {"kind": "below", "cut": 0.2}}),
    ],
)
def test_the_command_line_and_rest_merge_by_one_rule(
    registry: DatasetRegistry, assignments: list[str], patch: dict[str, Any]
) -> None:
    before = {
        "name": "news",
        "version": 1,
        "method": "product",
        "forget_after_days": 7,
        "label_map": {"PERSON": "PER", "PLACE": "LOC"},
        "flag_policy": {"kind": "budget", "share": 0.5},
    }
    apply(registry, before)
    assert parse_assignments(assignments) == patch
    change = merge(registry, patch)
    untouched = set(before) - set(patch) - {"version"}
    assert {name: change.fields[name] for name in untouched} == {name: before[name] for name in untouched}
    assert change.settings.version == 2


@pytest.mark.parametrize(
    ("patch", "label_map"),
    [
        ({"PLACE": None}, {"PERSON": "PER"}),
        ({"FIRM": "ORG"}, {"PERSON": "PER", "PLACE": "LOC", "FIRM": "ORG"}),
        ({}, {"PERSON": "PER", "PLACE": "LOC"}),
        (None, {}),
    ],
)
def test_a_mapping_is_merged_by_its_keys_and_none_empties(
    registry: DatasetRegistry, patch: dict[str, Any] | None, label_map: dict[str, str]
) -> None:
    apply(registry, {"name": "news", "version": 1, "label_map": {"PERSON": "PER", "PLACE": "LOC"}})
    assert merge(registry, {"label_map": patch}).settings.label_map == label_map


def test_a_mapping_is_not_set_as_a_whole_and_by_its_fields() -> None:
    with pytest.raises(InvalidInput, match="as a whole and by its fields"):
        parse_assignments(["label_map=null", "label_map.PERSON=PER"])


# -- settings that are not in force ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_merge_does_not_build_on_settings_that_are_not_in_force(registry: DatasetRegistry, version: int) -> None:
    apply(
        registry, {"name": "news", "version": 1, "epoch": 1}, {"name": "news", "version": version, "method": "no-such"}
    )
    with pytest.raises(ConflictError, match="the newest settings of news are not in force: `method`: unknown method"):
        merge(registry, {"control_share": 0.1})
    with pytest.raises(ConflictError):
        raise_epoch(registry.get_settings_state("news"), build_judge=registry.build_judge)
    change = replace(registry, {"control_share": 0.1})
    assert (change.settings.version, change.settings.epoch) == (version + 1, 1)


def test_a_merge_does_not_build_on_a_record_that_can_not_be_read(registry: DatasetRegistry) -> None:
    apply(registry, {"name": "news", "version": 1}, {"name": "news", "version": "two"})
    with pytest.raises(ConflictError, match="`version`"):
        merge(registry, {"control_share": 0.1})
    assert replace(registry, {}).builds_on == (0, 1)


def test_an_epoch_that_another_process_uses_is_never_lowered(registry: DatasetRegistry) -> None:
    apply(registry, {"name": "news", "version": 3, "method": "no-such", "epoch": 5, "ranker_epoch": 2})
    change = replace(registry, {})
    assert (change.settings.epoch, change.settings.ranker_epoch, change.settings.version) == (5, 2, 4)
    with pytest.raises(InvalidInput, match="it is 5 and can only grow") as refused:
        replace(registry, {"epoch": 4})
    assert refused.value.field == "epoch"


def test_an_unknown_field_that_json_does_not_have_is_refused(registry: DatasetRegistry) -> None:
    value = b'{"name": "news", "version": 1, "from_tomorrow": NaN}'
    registry.apply_records([Record(TOPICS.datasets, 0, 0, b"news", value)])
    with pytest.raises(InvalidInput, match="it can't be written as JSON") as refused:
        merge(registry, {"method": "product"})
    assert refused.value.field == "from_tomorrow"
    assert replace(registry, {"method": "product"}).settings.version == 2


def test_raising_the_epoch_starts_other_statistics(registry: DatasetRegistry) -> None:
    apply(registry, {"name": "news", "version": 1, "epoch": 2, "method": "product"})
    change = raise_epoch(registry.get_settings_state("news"), build_judge=registry.build_judge)
    assert change.fields == {"name": "news", "version": 2, "epoch": 3, "method": "product"}
    assert change.judge.stats_key != registry.get_judge("news").stats_key


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "if_match", "fits"),
    [
        ({}, None, True),
        ({"version": 3}, None, True),
        ({"version": 2}, None, False),
        ({}, ["3"], True),
        ({}, ["1", "3"], True),
        ({}, ["*"], True),
        ({}, ["2"], False),
        ({"version": 3}, ["2"], False),
        ({"version": 2}, ["*"], False),
    ],
)
@pytest.mark.parametrize("change_settings", [merge, replace])
def test_a_change_that_names_a_version_is_made_on_that_version_only(
    registry: DatasetRegistry, change_settings: Any, *, fields: dict[str, Any], if_match: list[str] | None, fits: bool
) -> None:
    apply(registry, {"name": "news", "version": 3})
    if fits:
        change = change_settings(registry, fields, if_match=if_match)
        assert change.settings.version == 4
        assert change.names_version == (if_match is not None or bool(fields))
    else:
        with pytest.raises(VersionMismatchError, match="is for version 2, the version in force is 3"):
            change_settings(registry, fields, if_match=if_match)


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"name": "other"}, "name", "it is 'other', and the dataset is 'news': a dataset can't be renamed"),
        ({"colour": "red"}, "colour", "there is no such setting: use one of version, scheme"),
        ({"control_share": "0.5"}, "control_share", "'0.5': give a number"),
        ({"control_share": float("nan")}, "control_share", "it can't be written as JSON"),
        ({"label_map": {"\ud800": "PER"}}, "label_map", "it can't be written as JSON"),
        ({"label_map": {"PERSON": "HUMAN"}}, "label_map", '"PERSON" is mapped to "HUMAN"'),
        ({"flag_policy": {"kind": "no-such"}}, "flag_policy", 'give {"kind": "confident"}, {"kind": "below"'),
    ],
)
@pytest.mark.parametrize("change_settings", [merge, replace])
def test_settings_that_do_not_fit_name_the_field(
    registry: DatasetRegistry, change_settings: Any, *, fields: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        change_settings(registry, fields)
    assert refused.value.field == field
    assert refused.value.problem.startswith(problem)


# -- the optimistic lock -----------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    with closing(SqliteLog(tmp_path / "log.sqlite", TOPICS)) as opened:
        yield opened


@pytest.mark.parametrize(("if_match", "error"), [(None, ConflictError), (["*"], VersionMismatchError)])
def test_a_change_is_not_written_over_one_that_was_not_read(
    registry: DatasetRegistry, log: SqliteLog, if_match: list[str] | None, error: type[ConflictError]
) -> None:
    first = merge(registry, {"method": "product"})
    write_change(log, TOPICS.datasets, first, request_id="r-1")
    registry.apply_records(log.read(TOPICS.datasets, 0, 10))
    second = merge(registry, {"control_share": 0.1}, if_match=if_match)
    log.append([Output(TOPICS.datasets, b"news", b'{"name": "news", "version": 2}')])
    with pytest.raises(error, match="another writer changed the settings of news at the same time") as refused:
        write_change(log, TOPICS.datasets, second)
    assert type(refused.value) is error
    assert [record.value for record in log.read(TOPICS.datasets, 0, 10)] == [b'{"name": "news", "version": 2}']


# -- the model ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    make_model(path / "med", "wordpiece", seed=1)
    make_model(path / "law", "wordpiece", seed=2)
    return path


@pytest.fixture
def with_models(tiny_model: Path, models: Path) -> DatasetRegistry:
    return DatasetRegistry(make_pool(Classifier(ModelFolder.load(tiny_model)), models), min_words=1, prior_words=0)


@pytest.mark.parametrize("change_settings", [merge, replace])
def test_choosing_a_model_writes_its_fingerprint(
    with_models: DatasetRegistry, models: Path, change_settings: Any
) -> None:
    change = change_settings(with_models, {"model": "med"})
    fingerprint = ModelFolder.load(models / "med").fingerprint
    assert change.fields == {"name": "news", "version": 1, "model": "med", "model_fingerprint": fingerprint}
    assert change.settings == change.judge.settings == DatasetSettings.model_validate(change.fields)
    assert change.judge.model.fingerprint == fingerprint
    chosen = change_settings(with_models, {"model": "med", "model_fingerprint": None})
    assert chosen.settings.model_fingerprint is None, "any contents, if the caller says so"


def test_another_model_or_none_does_not_keep_the_fingerprint(with_models: DatasetRegistry, models: Path) -> None:
    apply(with_models, dict(merge(with_models, {"model": "med"}).fields))
    law = ModelFolder.load(models / "law").fingerprint
    assert merge(with_models, {"model": "law"}).settings.model_fingerprint == law
    default = merge(with_models, {"model": None})
    assert (default.settings.model, default.settings.model_fingerprint) == (None, None)
    other_setting = merge(with_models, {"control_share": 0.5}).settings
    assert other_setting.model_fingerprint == ModelFolder.load(models / "med").fingerprint
    assert replace(with_models, {"control_share": 0.5}).settings.model is None


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"model": "medd"}, "model", "has no model 'medd' (did you mean 'med'?)"),
        ({"model": "med", "model_fingerprint": "ab" * 32}, "model", "expected is abababababab"),
        ({"model_fingerprint": "ab" * 32}, "model", "expected is abababababab"),
        ({"model": "../med"}, "model", ""),
        ({"model": "med", "model_fingerprint": "short"}, "model_fingerprint", ""),
    ],
)
def test_a_model_that_is_not_here_can_not_be_chosen(
    with_models: DatasetRegistry, fields: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        merge(with_models, fields)
    assert refused.value.field == field
    assert problem in refused.value.problem
