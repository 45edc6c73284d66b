"""The access table: who may call each endpoint, and where the request names its dataset.

An endpoint without a rule is an error when the app is built: add the rule here, and the expectation to
`tests/unit/api/access/test_matrix.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from service.contracts.access.roles import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.contracts.access.roles import Role

Endpoint = tuple[str, str]  # method and path template


class DatasetIn(Enum):
    """Where a request names its dataset. It matters for callers that are limited to some datasets."""

    NOTHING = "nothing"  # the endpoint concerns no dataset
    PATH = "path"  # the path parameter `dataset` or `name`
    QUERY = "query"  # the parameter `dataset`; without it the endpoint is about all datasets
    QUERY_OR_OWN = "query or own"  # the parameter `dataset`; without it the route selects with `Caller.datasets`
    OPTIONAL_QUERY = "optional query"  # the parameter `dataset`; without it the endpoint concerns no dataset
    DEFAULT_QUERY = "default query"  # the parameter `dataset`; without it the dataset is `default`
    BODY = "body"  # each sentence or decision names its own: the route calls `Caller.check_dataset`
    LIST = "list"  # the route leaves out what is not for the caller, with `Caller.select`
    ALL = "all"  # the endpoint is always about all datasets: not for limited callers


@dataclass(frozen=True, slots=True)
class Rule:
    """The roles that may call an endpoint; none: it is public."""

    roles: frozenset[Role]
    dataset: DatasetIn = DatasetIn.NOTHING

    @property
    def is_public(self) -> bool:
        return not self.roles


def _allow(*roles: Role, dataset: DatasetIn = DatasetIn.NOTHING) -> Rule:
    """`admin` may call everything but the addresses for platforms."""
    return Rule(frozenset({*roles, "admin"}), dataset)


PUBLIC: Final = Rule(frozenset())
ANY_CALLER: Final = Rule(frozenset(ROLES))
_ANY_KEY_IN_HEADER: Final = _allow("annotator", "reviewer", "send", "score", "read")
_LABEL_STUDIO: Final = Rule(frozenset({"label-studio"}), DatasetIn.PATH)
_INCEPTION: Final = Rule(frozenset({"inception"}), DatasetIn.PATH)
_READ_DATASET: Final = _allow("reviewer", "read", dataset=DatasetIn.PATH)
_READ_QUEUE: Final = _allow("reviewer", "read", dataset=DatasetIn.QUERY)
_LIST_QUEUE: Final = _allow("reviewer", "read", dataset=DatasetIn.QUERY_OR_OWN)
_REVIEW_DATASET: Final = _allow("reviewer", dataset=DatasetIn.PATH)
_CHANGE_DATASET: Final = _allow(dataset=DatasetIn.PATH)
_SEE_ANNOTATOR: Final = _allow("annotator", "reviewer", "read", dataset=DatasetIn.PATH)
_MANAGE: Final = _allow(dataset=DatasetIn.ALL)
_SEND_EVENT: Final = _allow("send", dataset=DatasetIn.DEFAULT_QUERY)

RULES: Final[Mapping[Endpoint, Rule]] = {
    ("POST", "/v1/score"): _allow("reviewer", "score", "read", dataset=DatasetIn.BODY),
    ("POST", "/v1/sentences"): _allow("send", dataset=DatasetIn.BODY),
    ("POST", "/v1/webhooks/label-studio"): _SEND_EVENT,
    ("POST", "/v1/webhooks/argilla"): _SEND_EVENT,
    ("GET", "/label-studio/{dataset}/{key}/health"): _LABEL_STUDIO,
    ("GET", "/label-studio/{dataset}/{key}/versions"): _LABEL_STUDIO,
    ("POST", "/label-studio/{dataset}/{key}/setup"): _LABEL_STUDIO,
    ("POST", "/label-studio/{dataset}/{key}/predict"): _LABEL_STUDIO,
    ("POST", "/label-studio/{dataset}/{key}/webhook"): _LABEL_STUDIO,
    ("POST", "/inception/{dataset}/{key}/predict"): _INCEPTION,
    ("POST", "/inception/{dataset}/{key}/train"): _INCEPTION,
    ("GET", "/v1/review"): _LIST_QUEUE,
    ("GET", "/v1/review/similar"): _READ_QUEUE,
    ("GET", "/v1/review/facets"): _READ_QUEUE,
    ("GET", "/v1/review/progress"): _READ_QUEUE,
    ("GET", "/v1/review/{dataset}/{id}"): _READ_DATASET,
    ("POST", "/v1/review/next"): _allow("reviewer", dataset=DatasetIn.BODY),
    ("POST", "/v1/review/{dataset}/{id}/claim"): _REVIEW_DATASET,
    ("DELETE", "/v1/review/{dataset}/{id}/claim"): _REVIEW_DATASET,
    ("POST", "/v1/decisions"): _allow("reviewer", dataset=DatasetIn.BODY),
    ("POST", "/v1/decisions/preview"): _allow("reviewer", dataset=DatasetIn.BODY),
    ("GET", "/v1/overview"): _READ_QUEUE,
    ("GET", "/v1/events"): _LIST_QUEUE,
    ("GET", "/v1/datasets"): _allow("annotator", "reviewer", "read", dataset=DatasetIn.LIST),
    ("GET", "/v1/datasets/{name}"): _READ_DATASET,
    ("PUT", "/v1/datasets/{name}"): _CHANGE_DATASET,
    ("PATCH", "/v1/datasets/{name}"): _CHANGE_DATASET,
    ("GET", "/v1/datasets/{name}/waiting"): _READ_DATASET,
    ("GET", "/v1/datasets/{name}/label-set"): _READ_DATASET,
    ("PUT", "/v1/datasets/{name}/label-set"): _CHANGE_DATASET,
    ("GET", "/v1/webhook-endpoints"): _MANAGE,
    ("POST", "/v1/webhook-endpoints"): _MANAGE,
    ("PATCH", "/v1/webhook-endpoints/{id}"): _MANAGE,
    ("DELETE", "/v1/webhook-endpoints/{id}"): _MANAGE,
    ("POST", "/v1/webhook-endpoints/{id}/test"): _MANAGE,
    ("GET", "/v1/webhook-endpoints/{id}/failed"): _MANAGE,
    ("POST", "/v1/webhook-endpoints/{id}/retry"): _MANAGE,
    ("GET", "/v1/datasets/{name}/batches"): _READ_DATASET,
    ("GET", "/v1/datasets/{name}/batches/{batch}"): _READ_DATASET,
    ("GET", "/v1/datasets/{name}/thresholds"): _READ_DATASET,
    ("GET", "/v1/datasets/{name}/agreement"): _READ_DATASET,
    ("GET", "/v1/datasets/{name}/models"): _READ_DATASET,
    ("POST", "/v1/datasets/{name}/trainings"): _CHANGE_DATASET,
    ("GET", "/v1/models"): _allow("reviewer", "read", dataset=DatasetIn.LIST),
    ("GET", "/v1/export"): _allow("reviewer", "read", dataset=DatasetIn.DEFAULT_QUERY),
    ("GET", "/v1/dead-letters"): _allow("read", dataset=DatasetIn.QUERY),
    ("GET", "/v1/dead-letters/{id}"): _allow("read", dataset=DatasetIn.BODY),
    ("POST", "/v1/dead-letters/{id}/replay"): _allow(dataset=DatasetIn.BODY),
    ("POST", "/v1/dead-letters/replay"): _allow(dataset=DatasetIn.BODY),
    # The routes let an annotator see its own name only.
    ("GET", "/v1/datasets/{name}/annotators"): _SEE_ANNOTATOR,
    ("GET", "/v1/datasets/{name}/annotators/{annotator}"): _SEE_ANNOTATOR,
    ("GET", "/v1/datasets/{name}/annotators/{annotator}/items"): _SEE_ANNOTATOR,
    ("GET", "/v1/model"): _allow("annotator", "reviewer", "read", dataset=DatasetIn.OPTIONAL_QUERY),
    ("GET", "/v1/me"): _ANY_KEY_IN_HEADER,
    ("GET", "/v1/keys"): _MANAGE,
    ("POST", "/v1/keys"): _MANAGE,
    ("POST", "/v1/keys/{name}/rotate"): _MANAGE,
    ("DELETE", "/v1/keys/{name}"): _MANAGE,
    ("GET", "/v1/audit"): _MANAGE,
    ("GET", "/metrics"): _allow("read", dataset=DatasetIn.ALL),
    ("GET", "/healthz"): PUBLIC,
    ("GET", "/readyz"): PUBLIC,
    # Pages without data.
    ("GET", "/"): PUBLIC,
    ("GET", "/console/{name}"): PUBLIC,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/docs/start.js"): PUBLIC,
    ("GET", "/docs/assets/{name}"): PUBLIC,
    ("GET", "/openapi.json"): PUBLIC,
}
# What `GET /v1/me` calls the things that a caller may do, and the endpoint that decides.
ACTIONS: Final[Mapping[str, Endpoint]] = {
    "read": ("GET", "/v1/review"),
    "score": ("POST", "/v1/score"),
    "send": ("POST", "/v1/sentences"),
    "decide": ("POST", "/v1/decisions"),
    "change_settings": ("PATCH", "/v1/datasets/{name}"),
    "manage_keys": ("GET", "/v1/keys"),
    "read_audit": ("GET", "/v1/audit"),
    "export": ("GET", "/v1/export"),
    "read_dead_letters": ("GET", "/v1/dead-letters"),
    "replay": ("POST", "/v1/dead-letters/replay"),
    "manage_webhooks": ("GET", "/v1/webhook-endpoints"),
}
