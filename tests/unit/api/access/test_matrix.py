"""Every endpoint × role × own and other dataset. The endpoints are those of the OpenAPI document.

`EXPECTED` is written by hand, from what each role is for, so that a wrong rule in `service/api/access/rules.py` is noticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from service.access.key_text import generate_key, hash_key
from service.api.access.rules import RULES
from service.api.access.table import AccessTable
from service.api.app import ROUTE_MODULES
from service.contracts.access.roles import ADDRESS_ROLES, ROLES
from tests.support.api_harness import api_harness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from httpx2 import Response

    from service.inference.classifier import Classifier
    from tests.support.api_harness import ApiHarness

OWN, OTHER = "med", "law"
HELP = (
    "{endpoint} has no row here: add it to EXPECTED in tests/unit/api/access/test_matrix.py, and its rule to RULES in "
    "service/api/access/rules.py"
)
# The roles that may call it, and what a key for the dataset `med` gets for the dataset `law` and without a dataset:
#   -       the endpoint concerns no dataset: nothing is refused
#   refuse  403 for law; without a dataset the endpoint is about the key's own
#   lenient 403 for law; without a dataset nothing is refused
#   strict  403 for law, and without a dataset, which means `default`
#   hide    law is left out of the answer
#   all     403: it is always about all datasets
#   path    403 for law, which is in the path
EXPECTED_TEXT = """
POST   /v1/score                               reviewer score read admin       strict
POST   /v1/sentences                           send admin                      strict
POST   /v1/webhooks/label-studio               send admin                      strict
POST   /v1/webhooks/argilla                    send admin                      strict
GET    /label-studio/{dataset}/{key}/health    label-studio                    path
GET    /label-studio/{dataset}/{key}/versions  label-studio                    path
POST   /label-studio/{dataset}/{key}/setup     label-studio                    path
POST   /label-studio/{dataset}/{key}/predict   label-studio                    path
POST   /label-studio/{dataset}/{key}/webhook   label-studio                    path
POST   /inception/{dataset}/{key}/predict      inception                       path
POST   /inception/{dataset}/{key}/train        inception                       path
GET    /v1/review                              reviewer read admin             refuse
GET    /v1/review/similar                      reviewer read admin             refuse
GET    /v1/review/facets                       reviewer read admin             refuse
GET    /v1/review/progress                     reviewer read admin             refuse
GET    /v1/review/{dataset}/{id}               reviewer read admin             path
POST   /v1/review/next                         reviewer admin                  refuse
POST   /v1/review/{dataset}/{id}/claim         reviewer admin                  path
DELETE /v1/review/{dataset}/{id}/claim         reviewer admin                  path
POST   /v1/decisions                           reviewer admin                  strict
POST   /v1/decisions/preview                   reviewer admin                  refuse
GET    /v1/overview                            reviewer read admin             refuse
GET    /v1/events                              reviewer read admin             refuse
GET    /v1/datasets                            annotator reviewer read admin   hide
GET    /v1/datasets/{name}                     reviewer read admin             path
PUT    /v1/datasets/{name}                     admin                           path
PATCH  /v1/datasets/{name}                     admin                           path
GET    /v1/datasets/{name}/waiting             reviewer read admin             path
GET    /v1/datasets/{name}/label-set           reviewer read admin             path
PUT    /v1/datasets/{name}/label-set           admin                           path
GET    /v1/webhook-endpoints                   admin                           all
POST   /v1/webhook-endpoints                   admin                           all
PATCH  /v1/webhook-endpoints/{id}              admin                           all
DELETE /v1/webhook-endpoints/{id}              admin                           all
POST   /v1/webhook-endpoints/{id}/test         admin                           all
GET    /v1/webhook-endpoints/{id}/failed       admin                           all
POST   /v1/webhook-endpoints/{id}/retry        admin                           all
GET    /v1/datasets/{name}/batches             reviewer read admin             path
GET    /v1/datasets/{name}/batches/{batch}     reviewer read admin             path
GET    /v1/datasets/{name}/thresholds          reviewer read admin             path
GET    /v1/datasets/{name}/agreement           reviewer read admin             path
GET    /v1/datasets/{name}/models              reviewer read admin             path
POST   /v1/datasets/{name}/trainings           admin                           path
GET    /v1/models                              reviewer read admin             hide
GET    /v1/export                              reviewer read admin             strict
GET    /v1/dead-letters                        read admin                      refuse
GET    /v1/dead-letters/{id}                   read admin                      -
POST   /v1/dead-letters/{id}/replay            admin                           -
POST   /v1/dead-letters/replay                 admin                           path
GET    /v1/datasets/{name}/annotators          annotator reviewer read admin   path
GET    /v1/datasets/{name}/annotators/{annotator}   annotator reviewer read admin   path
GET    /v1/datasets/{name}/annotators/{annotator}/items   annotator reviewer read admin   path
GET    /v1/model                               annotator reviewer read admin   lenient
GET    /v1/me                                  annotator reviewer admin send score read   -
GET    /v1/keys                                admin                           all
POST   /v1/keys                                admin                           all
POST   /v1/keys/{name}/rotate                  admin                           all
DELETE /v1/keys/{name}                         admin                           all
GET    /v1/audit                               admin                           all
GET    /metrics                                read admin                      all
GET    /healthz                                *                               -
GET    /readyz                                 *                               -
"""


class Expected(NamedTuple):
    """`roles`: none means that no key is needed."""

    roles: frozenset[str]
    elsewhere: str


def parse_expected() -> dict[tuple[str, str], Expected]:
    rows = [line.split() for line in EXPECTED_TEXT.strip().splitlines()]
    return {(method, path): Expected(frozenset(roles) - {"*"}, elsewhere) for method, path, *roles, elsewhere in rows}


EXPECTED = parse_expected()
SENTENCE = {
    "tokens": ["Riga"],
    "labels": ["B-NOWHERE"],
}  # no label of the model: it is refused after the dataset is checked
DECISION = {"id": "1", "verdict": "ok"}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/score"): SENTENCE,
    ("POST", "/v1/sentences"): SENTENCE,
    ("POST", "/v1/decisions"): DECISION,
    ("POST", "/v1/review/next"): {},
    ("POST", "/v1/review/{dataset}/{id}/claim"): {},
    ("POST", "/v1/dead-letters/replay"): {"dry_run": True},
    ("POST", "/v1/decisions/preview"): {"action": "ok", "filter": {}},
}
KEYS: dict[tuple[str, bool], tuple[str, str]] = {
    (role, limited): (generate_key(), f"{role}-{'limited' if limited else 'free'}")
    for role in ROLES
    for limited in (False, True)
}


def list_keys() -> str:
    return ",".join(
        f"{name}:{role}{':' + OWN if limited or role in ADDRESS_ROLES else ''}:{hash_key(key)}"
        for (role, limited), (key, name) in KEYS.items()
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, tiny_classifier: Classifier) -> Iterator[ApiHarness]:
    with pytest.MonkeyPatch.context() as patch, api_harness(tmp_path_factory.mktemp("matrix"), tiny_classifier) as made:
        patch.setattr("service.api.routes.review.events.MAX_LISTENERS", 0)  # a listener would never end
        for dataset in (OWN, OTHER, "default"):
            made.send({"id": "1", "dataset": dataset, "tokens": ["Riga"], "labels": ["O"], "update": True})
        made.serve_with_limits(keys=list_keys())
        yield made


def list_endpoints(served: ApiHarness) -> list[tuple[str, str]]:
    return [
        (method.upper(), path)
        for path, operations in served.app.openapi()["paths"].items()
        for method in operations
        if method in ("get", "post", "put", "patch", "delete")
    ]


def call(served: ApiHarness, endpoint: tuple[str, str], key: str, dataset: str | None) -> Response:
    """Sends a request to the endpoint, about the dataset in path, query or body; None: without naming one."""
    method, template = endpoint
    values = {"name": dataset, "dataset": dataset, "id": "1", "key": key, "batch": "7"}
    values["annotator"] = dict(KEYS.values())[key]
    path = template.format(**{name: value or OWN for name, value in values.items()})
    body = BODIES.get(endpoint, {})
    in_body = endpoint in BODIES and "{dataset}" not in template
    in_query = dataset is not None and not in_body and "{" not in template
    if in_body and dataset:
        place = {"filter": {"dataset": dataset}} if "filter" in body else {"dataset": dataset}
        body = {**body, **place}
    return served.client.request(
        method,
        path,
        headers={"Authorization": f"Bearer {key}"},
        params={"dataset": dataset} if in_query else None,
        json=body if method in ("POST", "PUT", "PATCH") else None,
    )


def test_every_endpoint_has_a_row(served: ApiHarness) -> None:
    endpoints = list_endpoints(served)
    for endpoint in endpoints:
        assert endpoint in EXPECTED, HELP.format(endpoint=" ".join(endpoint))
    assert set(EXPECTED) == set(endpoints), "EXPECTED has rows of endpoints that are gone: remove them"


def test_an_endpoint_without_a_rule_is_an_error_that_names_the_file() -> None:
    without = {endpoint: rule for endpoint, rule in RULES.items() if endpoint != ("GET", "/v1/review/{dataset}/{id}")}
    routes = [route for module in ROUTE_MODULES for route in module.router.routes]
    with pytest.raises(LookupError, match=r"GET /v1/review/\{dataset\}/\{id\} has no access rule.*access/rules.py"):
        AccessTable(routes, rules=without)


@pytest.mark.parametrize("role", ROLES)
def test_roles(served: ApiHarness, role: str) -> None:
    key, name = KEYS[role, False]
    for endpoint in list_endpoints(served):
        expected = EXPECTED[endpoint]
        answer = call(served, endpoint, key, OWN)
        where = f"{role}: {' '.join(endpoint)}: {answer.status_code} {answer.text[:200]}"
        if not expected.roles or role in expected.roles:
            assert answer.status_code not in (401, 403), where
        else:
            assert answer.status_code == 403, where
            assert name in answer.json()["detail"], where


def test_a_path_with_a_newline_at_its_end_has_the_same_rule(served: ApiHarness) -> None:
    """The router accepts such a path, since `$` also matches before a newline at the end."""
    headers = {"Authorization": f"Bearer {KEYS['annotator', False][0]}"}
    for method, template in list_endpoints(served):
        expected = EXPECTED[method, template]
        if "{" in template or not expected.roles or "annotator" in expected.roles:
            continue
        body = BODIES.get((method, template), {}) if method in ("POST", "PUT", "PATCH") else None
        answer = served.client.request(method, f"{template}%0A", headers=headers, json=body)
        assert answer.status_code == 403, f"{method} {template}: {answer.status_code} {answer.text[:200]}"


@pytest.mark.parametrize("role", ROLES)
def test_datasets(served: ApiHarness, role: str) -> None:
    key, _ = KEYS[role, True]
    for endpoint in list_endpoints(served):
        expected = EXPECTED[endpoint]
        if role not in expected.roles:
            continue
        own, other, unnamed = (call(served, endpoint, key, dataset) for dataset in (OWN, OTHER, None))
        where = f"{role}: {' '.join(endpoint)}"
        assert own.status_code not in (401, 403) or expected.elsewhere == "all", f"{where}: {own.text[:200]}"
        if expected.elsewhere in ("refuse", "lenient", "strict", "path"):
            assert other.status_code == 403, f"{where}: {other.status_code} {other.text[:200]}"
            assert f"dataset {OTHER}" in other.json()["detail"], where
        if expected.elsewhere in ("refuse", "lenient", "-", "hide"):
            assert unnamed.status_code not in (401, 403), f"{where}: {unnamed.text[:200]}"
        elif expected.elsewhere == "strict":
            assert (unnamed.status_code, "dataset default" in unnamed.json()["detail"]) == (403, True), where
        elif expected.elsewhere == "all":
            assert own.status_code == other.status_code == unnamed.status_code == 403, where
        if expected.elsewhere == "hide":
            assert OWN in unnamed.text
            assert OTHER not in unnamed.text, where


def test_without_a_dataset_the_answer_is_about_the_keys_own(served: ApiHarness) -> None:
    headers = {"Authorization": f"Bearer {KEYS['reviewer', True][0]}"}
    page = served.client.get("/v1/review?state=all", headers=headers).json()
    assert {item["dataset"] for item in page["items"]} == {OWN}
    assert served.client.get("/v1/overview", headers=headers).json()["dataset"] == OWN
    for query in (f"dataset={OWN}&dataset={OTHER}", f"dataset={OTHER}&dataset={OWN}", "dataset=%6caw", "dataset="):
        assert served.client.get(f"/v1/review?{query}", headers=headers).status_code == 403, query


def test_a_key_for_several_datasets_sees_their_items_and_names_one_elsewhere(harness: ApiHarness) -> None:
    key = generate_key()
    client = harness.serve_with_limits(keys=f"dana:reviewer:med+law:{hash_key(key)}")
    headers = {"Authorization": f"Bearer {key}"}
    for dataset in ("med", "law", "other"):
        harness.send({"id": "1", "dataset": dataset, "tokens": ["Riga"], "labels": ["O"], "update": True})
    page = client.get("/v1/review?state=all", headers=headers).json()
    assert {item["dataset"] for item in page["items"]} == {"med", "law"}
    refused = client.get("/v1/overview", headers=headers)
    assert (refused.status_code, refused.json()["field"]) == (403, "dataset")
    assert "is only for law, med: name one of them" in refused.json()["detail"]
    assert client.get("/v1/review?dataset=law", headers=headers).status_code == 200
    body: dict[str, Any] = {"action": "ok", "filter": {"state": "all"}}
    preview = client.post("/v1/decisions/preview", json=body, headers=headers).json()
    assert {entry["dataset"] for entry in preview["left_out"]} == {"med", "law"}
    body = {"action": "ok", "items": [{"dataset": "news", "id": "1"}]}
    refused = client.post("/v1/decisions/preview", json=body, headers=headers)
    assert (refused.status_code, refused.json()["field"]) == (403, "items.0.dataset")


def test_a_line_about_another_dataset_gets_a_problem_and_others_go_on(served: ApiHarness) -> None:
    lines = b'{"dataset":"law","tokens":["a"],"labels":["O"]}\n{"dataset":"med","tokens":["a"],"labels":["O"]}\n'
    headers = {"Authorization": f"Bearer {KEYS['send', True][0]}", "Content-Type": "application/x-ndjson"}
    refused, accepted = served.client.post("/v1/sentences", content=lines, headers=headers).text.splitlines()
    assert '"status":403' in refused
    assert "dataset law" in refused
    assert '"id"' in accepted


def test_me(served: ApiHarness) -> None:
    def ask(role: str, *, limited: bool) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {KEYS[role, limited][0]}"}
        answer: dict[str, Any] = served.client.get("/v1/me", headers=headers).json()
        return answer

    assert ask("reviewer", limited=True) == {
        "name": "reviewer-limited",
        "role": "reviewer",
        "datasets": [OWN],
        "may": ["read", "score", "decide", "export"],
    }
    assert ask("admin", limited=False)["datasets"] is None
    assert ask("admin", limited=False)["may"] == [
        "read",
        "score",
        "send",
        "decide",
        "change_settings",
        "manage_keys",
        "read_audit",
        "export",
        "read_dead_letters",
        "replay",
        "manage_webhooks",
    ]
    assert ask("send", limited=False)["may"] == ["send"]
    assert ask("annotator", limited=False)["may"] == []


def test_me_without_keys(quiet: ApiHarness) -> None:
    answer = quiet.client.get("/v1/me").json()
    assert (answer["name"], answer["role"], answer["datasets"]) == (None, "admin", None)
