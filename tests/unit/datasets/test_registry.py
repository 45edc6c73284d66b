"""Settings in force, read from the records of the datasets topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from service.datasets.registry import check_dataset_exists
from service.errors import UnknownDatasetError
from service.log.protocol import Record

if TYPE_CHECKING:
    from service.datasets.registry import DatasetRegistry


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
    with pytest.raises(UnknownDatasetError, match=r"the datasets are none yet$"):
        check_dataset_exists("c", ())
    with pytest.raises(UnknownDatasetError, match=r"19, …$"):
        check_dataset_exists("c", tuple(str(number) for number in range(30)))
