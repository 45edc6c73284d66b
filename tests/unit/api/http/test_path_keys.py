from __future__ import annotations

from urllib.parse import unquote

import pytest

from service.access.key_text import generate_key
from service.api.http.path_keys import PathKey, hide_key

KEY = generate_key()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (f"/label-studio/trips/{KEY}/predict", "/label-studio/trips/***/predict"),
        ("/label-studio/trips/any-other/predict", "/label-studio/trips/***/predict"),
        (f"/label-studio/trips/{KEY}/a/b", "/label-studio/trips/***/a/b"),
        (f"/label-studio/trips/x/{KEY}", "/label-studio/trips/***/***"),
        (f"/label-studio/trips/{KEY}", "/label-studio/***/***"),
        (f"/label-studio/{KEY}", "/label-studio/***"),
        (f"/inception/trips/{KEY}/predict", "/inception/trips/***/predict"),
        (f"/inception/trips/{KEY}", "/inception/***/***"),
        (f"/label%2Dstudio/trips%2F{KEY}/predict", "/label-studio/trips/***/predict"),
        (f"/label-studio/trips/lw%5F{KEY[3:]}/predict", "/label-studio/trips/***/predict"),
        (f"/label-studio/a%0Ab/{KEY}/predict", "/label-studio/a%0Ab/***/predict"),
        (f"/v1/label-studio/trips/{KEY}/predict", "/v1/label-studio/trips/***/predict"),
        (f"//label-studio/trips/{KEY}/predict", "//label-studio/trips/***/predict"),
        ("/v1/datasets/caf%C3%A9", "/v1/datasets/caf%C3%A9"),
    ],
)
def test_no_path_shows_a_key(raw: str, shown: str) -> None:
    assert hide_key(unquote(raw), raw) == shown


def test_the_parts_of_a_path() -> None:
    assert PathKey.parse("/label-studio/trips/k/setup") == PathKey("label-studio", "trips", "k", "setup")
    assert PathKey.parse("/inception/trips/k/predict") == PathKey("inception", "trips", "k", "predict")
    for other in ("/label-studio/trips/k", "/label-studio/trips/k/setup/", "/v1/trips/k/setup", "/label-studio/"):
        assert PathKey.parse(other) is None
