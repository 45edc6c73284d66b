"""Requests made from the OpenAPI document, good and bad ones: no 5xx, and no answer that it does not describe."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from service.api.auth import digest_of, new_key
from service.contracts import BelowPolicy, DatasetSettings
from service.inference.classifier import Classifier
from service.inference.folder import ModelFolder
from tests.api_desk import api_desk
from tests.stream_desk import sentences
from tests.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case
    from schemathesis.schemas import BaseSchema


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSchema]:
    folder = tmp_path_factory.mktemp("rest")
    classifier = Classifier(ModelFolder.load(make_model(folder / "model", "wordpiece")))
    stop = threading.Event()
    with api_desk(folder, classifier, keys=f"fuzz:write:{digest_of(KEY)}") as desk:
        desk.worker._datasets.put(DatasetSettings(flag_policy=BelowPolicy(kind="below", cut=2.0)))
        desk.send(*sentences(5))
        thread = threading.Thread(target=desk.backend.batcher.run, args=(stop,))
        thread.start()
        try:
            yield schemathesis.openapi.from_asgi("/openapi.json", desk.app)
        finally:
            stop.set()
            thread.join()


KEY = new_key()
ALLOWED = {"Authorization": f"Bearer {KEY}"}
EXAMPLES = int(os.environ.get("LABELWATCH_REST_EXAMPLES", "8"))
ENDLESS = frozenset({"/v1/events"})
MODES = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_operation_answers_as_it_says(document: BaseSchema, mode: schemathesis.GenerationMode) -> None:
    seen, wrong = 0, []
    for found in document.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        seen += 1

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Case[Any]) -> None:
            case.call_and_validate(headers=ALLOWED, excluded_checks=[positive_data_acceptance])

        try:
            ask()
        except Unsatisfiable:
            assert mode is not schemathesis.GenerationMode.POSITIVE  # what takes nothing can't be asked wrongly
        except FailureGroup as failures:
            wrong.append(f"{operation.label}: {failures}")
    assert seen > 10
    assert not wrong, "\n".join(wrong)
