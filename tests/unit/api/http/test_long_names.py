"""What a client chose is not repeated at length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

LONG = "T" * 3_000
SENTENCE = {"tokens": ["a"], "labels": ["O"]}


@pytest.mark.parametrize(
    ("method", "path", "body", "query"),
    [
        ("PUT", "/v1/datasets/news", {"label_map": {LONG: "PER"}}, {}),
        ("PATCH", "/v1/datasets/news", {"label_map": {LONG: "PER"}}, {}),
        ("PATCH", "/v1/datasets/news", {LONG: 1}, {}),
        ("POST", "/v1/sentences", {**SENTENCE, LONG: 1}, {}),
        ("POST", "/v1/score", {"sentences": [SENTENCE], LONG: 1}, {}),
        ("POST", "/v1/score", SENTENCE, {LONG: "1"}),
        ("GET", "/v1/export", None, {"format": LONG}),
        ("GET", "/v1/export", None, {LONG: "1"}),
    ],
)
def test_an_error_about_a_long_name_is_short(
    harness: ApiHarness, method: str, path: str, body: Any, query: dict[str, str]
) -> None:
    answer = harness.client.request(method, path, json=body, params=query)
    assert (answer.status_code, len(answer.text) < 1_000) == (422, True), answer.text[:1_000]
    assert len(answer.json()["field"]) < 100
