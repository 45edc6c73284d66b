"""Finds the rule of a request, with the patterns of the app's own routes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs, urlencode

from starlette.routing import Route, compile_path

from service.api.access.caller import NAME_IN_QUERY
from service.api.access.rules import ANY_CALLER, PUBLIC, RULES, DatasetIn, Rule
from service.api.http.problems import ForbiddenError
from service.contracts.access.roles import ADDRESS_ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.routing import BaseRoute
    from starlette.types import Scope

    from service.api.access.caller import Caller
    from service.api.access.rules import Endpoint

METRICS_PATH: Final = "/metrics"
OPENAPI_PATH: Final = "/openapi.json"
DEFAULT_DATASET: Final = "default"


class RuleMatch(NamedTuple):
    """The rule of a request, and the dataset that its path names."""

    rule: Rule
    dataset: str | None = None

    def check(self, caller: Caller, scope: Scope) -> None:
        """Raises `ForbiddenError` if the caller may not send the request.

        A caller with one dataset need not name it: the query gets it, where it would be about all datasets.
        """
        if caller.kind == "anybody":
            return
        if caller.role not in self.rule.roles:
            raise ForbiddenError(explain_role(caller, self.rule))
        place = self.rule.dataset
        if caller.datasets is None or place in (DatasetIn.NOTHING, DatasetIn.LIST):
            return
        if place is DatasetIn.ALL:
            raise ForbiddenError(
                f"{caller.describe()} is only for {caller.list_datasets()}, and this is about all datasets: use a key "
                "without datasets"
            )
        is_named = place is DatasetIn.PATH or bool(_list_query_datasets(scope))
        for name in self._list_named(scope, place):
            caller.check_dataset(name, field="dataset", naming=None if is_named else NAME_IN_QUERY)
        if place is DatasetIn.QUERY and not is_named:
            if len(caller.datasets) != 1:
                raise ForbiddenError(
                    f"{caller.describe()} is only for {caller.list_datasets()}: name one of them as `dataset`",
                    field="dataset",
                )
            added = urlencode({"dataset": next(iter(caller.datasets))}).encode()
            scope["query_string"] = b"&".join(part for part in (scope["query_string"], added) if part)

    def _list_named(self, scope: Scope, place: DatasetIn) -> list[str]:
        """The datasets that path and query name. The values of a parameter that is sent twice all count."""
        if place is DatasetIn.PATH:
            return [self.dataset or ""]
        named = _list_query_datasets(scope)
        return [DEFAULT_DATASET] if not named and place is DatasetIn.DEFAULT_QUERY else named


class AccessTable:
    """The rules by method and path. Paths are matched in the order of the router."""

    def __init__(
        self,
        routes: Iterable[BaseRoute],
        *,
        open_metrics: bool = False,
        signed_paths: frozenset[str] = frozenset(),
        rules: Mapping[Endpoint, Rule] = RULES,
    ) -> None:
        """`open_metrics`: /metrics needs no key. `signed_paths`: webhooks that check a signature instead of a key."""
        self._signed_paths = signed_paths
        self._fixed: dict[Endpoint, Rule] = {("GET", OPENAPI_PATH): rules["GET", OPENAPI_PATH]}
        self._patterns: list[tuple[frozenset[str], re.Pattern[str], dict[str, Rule]]] = []
        for route in routes:
            if isinstance(route, Route):
                self._add_route(route, rules)
        self._fixed.update({("POST", path): PUBLIC for path in signed_paths})
        if open_metrics:
            self._fixed["GET", METRICS_PATH] = PUBLIC

    def _add_route(self, route: Route, rules: Mapping[Endpoint, Rule]) -> None:
        methods = sorted((route.methods or set()) - {"HEAD"})
        found = {method: rules.get((method, route.path_format)) for method in methods}
        for method, rule in found.items():
            if rule is None:
                raise LookupError(
                    f"{method} {route.path_format} has no access rule: say in `RULES` of service/api/access/rules.py who "
                    "may call it and where it names its dataset"
                )
        by_method = {method: rule for method, rule in found.items() if rule is not None}
        if "{" not in route.path:
            self._fixed.update({(method, route.path): rule for method, rule in by_method.items()})
        # Also of a path without parameters: the router's pattern matches it with a newline at its end, too.
        self._patterns.append((frozenset(by_method), compile_path(route.path)[0], by_method))

    def find(self, method: str, path: str) -> RuleMatch:
        """The rule of a request. A path that no route has is for every known caller, who learns that it is not there."""
        method = "GET" if method == "HEAD" else method
        fixed = self._fixed.get((method, path))
        if fixed is not None:
            return RuleMatch(fixed)
        for methods, pattern, rules in self._patterns:
            if method in methods and (match := pattern.match(path)):
                parameters = match.groupdict()
                return RuleMatch(rules[method], parameters.get("dataset", parameters.get("name")))
        return RuleMatch(ANY_CALLER)

    def is_signed(self, path: str) -> bool:
        """Whether the path checks signatures instead of keys."""
        return path in self._signed_paths


def explain_role(caller: Caller, rule: Rule) -> str:
    """Why the caller's role is not enough."""
    roles = sorted(rule.roles)
    if caller.role in ADDRESS_ROLES:
        return f"{caller.describe()} may only be part of an address /{caller.role}/…: use one with the role {roles[0]}"
    listed = roles[0] if len(roles) == 1 else f"{', '.join(roles[:-1])} or {roles[-1]}"
    return f"{caller.describe()} has the role {caller.role}, which may not do this: use one with the role {listed}"


def _list_query_datasets(scope: Scope) -> list[str]:
    return parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("dataset", [])
