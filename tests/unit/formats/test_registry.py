"""One entry holds everything about a format."""

from __future__ import annotations

import pytest

from service.formats import FORMATS, Format
from service.formats.detection import detect_object_format
from service.settings import ApiSettings
from service.telemetry.metrics.metrics import WEBHOOK_PLATFORMS

FORMAT_LIST = list(FORMATS.values())


def test_settings_that_formats_name_exist() -> None:
    named = {form.url_setting for form in FORMAT_LIST if form.url_setting is not None}
    named |= {form.webhook.signature.secrets_setting for form in FORMAT_LIST if form.webhook and form.webhook.signature}
    assert named == {"label_studio_url", "argilla_url", "argilla_secrets"} <= set(ApiSettings.model_fields)


def test_secrets_are_read_from_settings_that_hold_some() -> None:
    settings = ApiSettings.model_validate({"argilla_secrets": "YWJj, ZGVm"})
    assert settings.list_secrets("argilla_secrets") == ("YWJj", "ZGVm")
    with pytest.raises(TypeError, match="'argilla_url' holds no secrets"):
        settings.list_secrets("argilla_url")


def test_every_webhook_is_counted() -> None:
    assert {form.name for form in FORMAT_LIST if form.webhook is not None} == set(WEBHOOK_PLATFORMS)


@pytest.mark.parametrize("form", [form for form in FORMAT_LIST if form.convert is not None], ids=lambda form: form.name)
def test_a_format_that_converts_objects_is_recognised_and_described(form: Format) -> None:
    assert form.signatures or form.is_object is not None
    assert form.record_keys
    for keys in form.signatures:
        assert detect_object_format(dict.fromkeys(keys)) == form.name


def test_where_two_signatures_match_the_more_specific_format_wins() -> None:
    prodigy = {"text": "Oslo", "spans": [], "label": [], "answer": "accept"}
    assert detect_object_format(prodigy) == "prodigy"
    del prodigy["answer"]
    assert detect_object_format(prodigy) == "spans"
    del prodigy["spans"]
    assert detect_object_format(prodigy) == "doccano"
