"""Requests made from the OpenAPI document, good and bad ones: no 5xx, and no answer that it does not describe."""

from __future__ import annotations

import copy
import json
import os
import re
import socket
import threading
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.core.failures import FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from service.access.key_text import generate_key, hash_key
from service.api.ingest.body_schema import RECORD_EXAMPLE
from service.api.ingest.query import FORMAT_NAMES
from service.contracts import BelowPolicy, DatasetSettings
from service.datasets.settings_records import parse_settings
from service.errors import InvalidInput
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.support.api_harness import ApiHarness, api_harness, wait_for
from tests.support.command_harness import make_sentences
from tests.support.live_server import STOP_TIMEOUT_S, serve_app
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schemathesis import Case
    from schemathesis.schemas import BaseSchema


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    folder = tmp_path_factory.mktemp("rest")
    classifier = Classifier(ModelFolder.load(make_model(folder / "model", "wordpiece")))
    stop = threading.Event()
    with api_harness(folder, classifier, keys=f"fuzz:write:{hash_key(KEY)}") as harness:
        harness.worker._datasets.put(DatasetSettings(flag_policy=BelowPolicy(kind="below", cut=2.0)))
        harness.send(*make_sentences(5))
        thread = threading.Thread(target=harness.backend.batcher.run, args=(stop,))
        thread.start()
        try:
            yield harness
        finally:
            stop.set()
            thread.join()


@pytest.fixture(scope="module")
def document(harness: ApiHarness) -> BaseSchema:
    return schemathesis.openapi.from_asgi("/openapi.json", harness.app)


KEY = generate_key()
ALLOWED = {"Authorization": f"Bearer {KEY}"}
EXAMPLES = int(os.environ.get("LABELWATCH_REST_EXAMPLES", "10"))
SEED = int(os.environ["LABELWATCH_REST_SEED"]) if "LABELWATCH_REST_SEED" in os.environ else None
DEEPER = 5  # times as many for what takes the most
DEEP = frozenset(
    {
        ("POST", "/v1/score"),
        ("POST", "/v1/sentences"),
        ("POST", "/v1/decisions"),
        ("GET", "/v1/review"),
        ("PUT", "/v1/datasets/{name}"),
        ("PATCH", "/v1/datasets/{name}"),
    }
)
ENDLESS = frozenset({"/v1/events"})  # has a test of its own
MODES = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]


def quietly(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=SEED is None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def with_seed(test: Callable[..., None]) -> Callable[..., None]:
    return test if SEED is None else seed(SEED)(test)


def right_as_text(case: Case[Any]) -> bool:
    """Whether only the query was to be wrong, and that by a type: all of it arrives as text, where it may be right.

    The header that is wrong then is the key, which is replaced by a good one.
    """
    parts = case.meta.components if case.meta is not None else {}
    wrong = {where for where, part in parts.items() if part.mode.is_negative}
    if not wrong or wrong - {ParameterLocation.QUERY, ParameterLocation.HEADER}:
        return False
    told = [one for one in case.operation.definition.raw.get("parameters", ()) if one["in"] == "query"]
    schemas = {one["name"]: one["schema"] for one in told}
    needed = {one["name"] for one in told if one.get("required")}
    return needed <= set(case.query) <= set(schemas) and all(
        jsonschema_rs.is_valid(schemas[name], one if isinstance(one, str) else json.dumps(one))
        for name, value in case.query.items()
        for one in list_sent(value)
    )


def list_sent(value: object) -> list[object]:
    """The values that a query is sent with: those of lists, and the names of objects."""
    if isinstance(value, list | dict):
        return [sent for one in value for sent in list_sent(one)]
    return [value]


# What a schema can't say: rules between fields and parts, names that must exist, and platforms' own records.
UNWRITTEN_RULES = [
    ("", r"give a whole number"),  # 4.0 is an integer for JSON Schema
    ("", r"is not a cursor of this queue|not a value of `next`"),
    ("", r"no letter, digit or symbol to search for"),  # classes of characters are not in every dialect of patterns
    ("GET /v1/export", r"it needs `decisions=true`"),
    ("POST /v1/(score|sentences)", r""),  # tests of their own follow
    ("POST /v1/webhooks/", r""),
    ("POST /label-studio/", r""),
    ("POST /inception/", r""),
    ("PUT /v1/datasets/{name}/label-set", r""),
    ("POST /v1/dead-letters/{id}/replay", r""),  # the sentence is checked as in the stream
    ("(PUT|PATCH) /v1/datasets/{name}", r"twice|and the dataset is|`(label_map|model|forget)"),
    ("PATCH /v1/datasets/{name}", r"`flag_policy"),  # some of its fields: the rest is what the dataset has
    ("(PUT|PATCH) /v1/datasets/{name}", r"the model can't judge|map them \(label_map\)"),
    ("POST /v1/decisions", r"`(decisions.\d+.)?(labels|wrong|withdrawn|verdict)[^`]*`|labels"),
]


def is_unwritten_rule(label: str, detail: str) -> bool:
    return any(re.match(operation, label) and re.search(rule, detail) for operation, rule in UNWRITTEN_RULES)


def test_an_unknown_setting_breaks_no_unwritten_rule() -> None:
    """Its error lists all settings, whose names are part of rules."""
    with pytest.raises(InvalidInput, match="there is no such setting") as error:
        parse_settings({"name": "news", "colour": "red"})
    assert not is_unwritten_rule("PUT /v1/datasets/{name}", str(error.value))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_operation_answers_as_it_says(document: BaseSchema, mode: schemathesis.GenerationMode) -> None:
    seen, wrong = set(), []
    for found in document.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        name = (operation.method.upper(), operation.path)
        seen.add(name)

        @with_seed
        @given(case=operation.as_strategy(generation_mode=mode))
        @quietly(EXAMPLES * (DEEPER if name in DEEP else 1))
        def ask(case: Case[Any]) -> None:
            assume(not right_as_text(case))
            answer = case.call_and_validate(headers=ALLOWED, excluded_checks=[positive_data_acceptance])
            if mode is schemathesis.GenerationMode.POSITIVE and answer.status_code in (400, 415, 422):
                detail = answer.json()["detail"]
                if not is_unwritten_rule(case.operation.label, detail):
                    wrong.append(f"{case.operation.label}: valid, but refused: {detail}")

        try:
            ask()
        except Unsatisfiable:
            assert mode is not schemathesis.GenerationMode.POSITIVE  # what takes nothing can't be asked wrongly
        except FailureGroup as failures:
            wrong.append(f"{operation.label}: {failures}")
    assert seen > DEEP
    assert len(seen) > 10
    assert not wrong, "\n".join(wrong)


# -- records of platforms: what a schema tells only loosely ------------------------------------------------------------

TEXT = "Jane Smith visited Oslo."
SPAN = {"start": 0, "end": 4, "label": "PER"}
FEATURES = [{"name": "ner_tags", "type": {"names": ["O"]}}]
RECORDS: list[tuple[str, dict[str, Any]]] = [
    ("label-studio", RECORD_EXAMPLE),
    (
        "label-studio",
        {
            "action": "ANNOTATION_UPDATED",
            "task": {"id": 7, "data": {"text": TEXT}},
            "annotation": RECORD_EXAMPLE["annotations"][0],
        },
    ),
    ("label-studio", {"id": 7, "text": TEXT, "l": [{"start": 0, "end": 4, "labels": ["PER"]}], "annotation_id": 41}),
    ("argilla", {"id": "r", "fields": {"t": TEXT}, "responses": {"q": [{"value": [SPAN]}]}}),
    ("doccano", {"id": 1, "text": TEXT, "label": [[0, 4, "PER"]]}),
    ("prodigy", {"text": TEXT, "spans": [SPAN], "answer": "accept", "_task_hash": 1}),
    ("huggingface", {"tokens": [["Jane"], ["won"]], "ner_tags": [[1], [0]], "names": ["O", "B-PER"]}),
    ("huggingface", {"features": FEATURES, "rows": [{"row": {"tokens": ["a"], "ner_tags": [0]}}]}),
    ("spans", {"text": TEXT, "spans": [[0, 4, "PER"]], "dataset": "default", "meta": {}}),
    ("words", {"tokens": ["Jane"], "labels": ["B-PER"], "id": "w"}),
]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from(["id", "start", "x"]), SCALARS, max_size=3)
)


def changed(draw: st.DrawFn, record: dict[str, Any]) -> dict[str, Any]:
    """The record with a place in it changed, or gone."""
    made = copy.deepcopy(record)
    holder: Any = made
    while places := list(holder) if isinstance(holder, dict) else list(range(len(holder))):
        place = draw(st.sampled_from(places))
        inner = holder[place]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            holder = inner
            continue
        if isinstance(holder, dict) and draw(st.booleans()):
            del holder[place]
        else:
            holder[place] = draw(VALUES)
        break
    return made


@st.composite
def records(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A format, most often the right one, and a record as a platform writes it, or nearly so."""
    form, record = draw(st.sampled_from(RECORDS))
    for _ in range(draw(st.integers(0, 2))):
        record = changed(draw, record)
    asked = draw(st.sampled_from([form, form, "auto", *FORMAT_NAMES]))
    return asked, record


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, Any]:
    form, record = draw(records())
    others = [one for _, one in draw(st.lists(records(), max_size=2))]
    return form, draw(st.sampled_from([record, [record], [*others, record], {"sentences": [*others, record]}]))


@pytest.mark.parametrize("path", ["/v1/score", "/v1/sentences"])
def test_records_that_are_nearly_right_are_answered_as_it_says(document: BaseSchema, path: str) -> None:
    operation = document[path]["POST"]
    answered: dict[int, int] = {}

    @with_seed
    @given(bodies())
    @quietly(EXAMPLES * 15)
    def ask(asked: tuple[str, Any]) -> None:
        form, body = asked
        case = operation.Case(query={"format": form}, body=body, media_type="application/json")
        answer = case.call(headers=ALLOWED)
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])
        answered[answer.status_code] = answered.get(answer.status_code, 0) + 1

    ask()
    assert set(answered) <= {200, 202, 400, 422}
    assert answered.get(200, 0) + answered.get(202, 0) > EXAMPLES  # and not all are refused
    assert answered[422] > EXAMPLES


@pytest.mark.parametrize("path", ["/v1/score", "/v1/sentences"])
def test_lines_get_one_answer_each(harness: ApiHarness, path: str) -> None:
    problem = harness.app.openapi()["components"]["schemas"]["Problem"]
    lines = st.one_of(
        records().map(lambda one: json.dumps(one[1])), VALUES.map(json.dumps), st.sampled_from(["{", "", "nul"])
    )

    @with_seed
    @given(st.sampled_from(FORMAT_NAMES), st.lists(lines, max_size=6))
    @quietly(EXAMPLES * 3)
    def ask(form: str, body: list[str]) -> None:
        headers = ALLOWED | {"Content-Type": "application/x-ndjson"}
        answer = harness.client.post(f"{path}?format={form}", content="\n".join(body).encode(), headers=headers)
        assert answer.status_code in (200, 202), answer.text
        found = [json.loads(line) for line in answer.text.splitlines()]
        assert len(found) == sum(1 for line in body if line)
        for one in found:
            if "status" in one:
                assert one["status"] in (400, 413, 422)
                jsonschema_rs.validate(problem, one)

    ask()


# -- what stays open ---------------------------------------------------------------------------------------------------


def test_who_listens_gets_a_first_event_as_the_document_says(harness: ApiHarness) -> None:
    operation = harness.app.openapi()["paths"]["/v1/events"]["get"]
    (kind,) = operation["responses"]["200"]["content"]
    example = json.loads(operation["responses"]["200"]["content"][kind]["example"].partition("data: ")[2])
    counters = harness.app.state.queue_watcher
    with serve_app(harness.app) as port, socket.create_connection(("127.0.0.1", port), STOP_TIMEOUT_S) as client:
        head = f"GET /v1/events?dataset=default HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        client.sendall(head.encode())
        heard = b""
        while b"event: queue\n" not in heard or not heard.rstrip(b"\r\n").endswith(b"}"):
            data = client.recv(65536)
            assert data, heard
            heard += data
        assert heard.startswith(b"HTTP/1.1 200 ")
        assert f"content-type: {kind}".encode() in heard.lower()
        told = json.loads(heard.partition(b"data: ")[2].splitlines()[0])
        assert set(told) == set(example)
        assert told["dataset"] == "default"
        assert told["counts"]["open"] > 0
        assert counters.listeners == 1
        client.close()
        wait_for(lambda: counters.listeners == 0)


def test_a_client_that_may_not_listen_gets_a_problem(harness: ApiHarness) -> None:
    problem = harness.app.openapi()["components"]["schemas"]["Problem"]
    for query, headers, status in (("", {}, 401), ("?dataset=No!", ALLOWED, 422)):
        answer = harness.client.get(f"/v1/events{query}", headers=headers)
        assert answer.status_code == status
        jsonschema_rs.validate(problem, answer.json())
