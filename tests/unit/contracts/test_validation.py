"""The paths of fields in errors."""

from __future__ import annotations

import pytest

from service.contracts import read_sentence
from service.contracts.validation import join_location
from service.datasets.settings_records import parse_settings
from service.errors import InvalidInput

LONG = "T" * 3_000
SHORT = "T" * 59 + "…"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (("label_map", "PERSON"), "label_map.PERSON"),
        (("sentences", 1, "labels"), "sentences.1.labels"),
        (("label_map", "T" * 60), f"label_map.{'T' * 60}"),
        (("label_map", LONG, "[key]"), f"label_map.{SHORT}"),
        ((LONG,), SHORT),
        (("label_map", "[key]"), "label_map.[key]"),
        ((), None),
    ],
)
def test_names_that_a_client_chose_are_shortened(location: tuple[str | int, ...], expected: str | None) -> None:
    assert join_location(location) == expected


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"label_map": {LONG: "PER"}}, f"label_map.{SHORT}"),
        ({"label_map": {LONG: 4}}, f"label_map.{SHORT}"),
        ({LONG: 4}, SHORT),
        ({"flag_policy": {"kind": "budget", "share": 0.1, LONG: 1}}, f"flag_policy.{SHORT}"),
    ],
)
def test_the_error_about_a_long_name_is_short(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_settings({"name": "news", **fields})
    assert caught.value.field == field
    assert len(str(caught.value)) < 600
    assert "[key]" not in str(caught.value)


def test_the_error_about_a_long_field_of_a_sentence_is_short() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_sentence({"tokens": ["a"], "labels": ["O"], LONG: 1}, unknown_fields="forbid")
    assert caught.value.field == SHORT
