"""Renders docs/configuration.md: every setting, from the models that read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from service.settings import ENV_PREFIX, Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

HEADER = """# Configuration

<!-- Written by `make schemas` from service/settings/: change it there. -->

All settings are environment variables, read once when a command starts. A command that reads them ends with an error that names the
variable if a value is invalid, or if a known group has no such setting, as with `LABELWATCH_API_PROT`. A name of an unknown
group, such as `LABELWATCH_APPI_PORT`, is ignored; `labelwatch check` finds it. Secrets are never printed or logged. Separate the
parts of a list with commas.
"""
TITLES = {
    "kafka": ("Kafka", "Used if the first variable is set. Without it the embedded log is used."),
    "log": ("The embedded log", "Used if no Kafka broker is set."),
    "topics": ("Topics", "Topic names, and how `labelwatch topics create` creates them."),
    "worker": ("Worker", "For `labelwatch worker` and the worker in `labelwatch up`."),
    "model": ("Model", "The model that judges, and how it runs."),
    "models": ("Model registry", "Where `labelwatch train` and `labelwatch model` store models."),
    "trainer": ("Trainer", "For the trainer in `labelwatch up`, and for `labelwatch trainer`."),
    "api": ("REST API", "For `labelwatch api` and `labelwatch up`."),
    "logs": ("Logs", "The log output on standard error."),
    "webhooks": (
        "Outgoing webhooks",
        "Where notifications may be sent: [webhooks.md](webhooks.md).",
    ),
    "metrics": ("Metrics", "What Prometheus scrapes."),
    "tracing": (
        "Tracing",
        "Spans for OpenTelemetry. Standard `OTEL_*` variables configure the rest: [operations.md](operations.md#tracing).",
    ),
}
BOUND_WORDS = {Ge: "at least", Gt: "above", Le: "at most", Lt: "below"}


def render_configuration() -> str:
    parts = [HEADER]
    for name, field in Settings.model_fields.items():
        title, summary = TITLES[name]
        rows = [_render_row(name, setting, info) for setting, info in find_settings_model(field).model_fields.items()]
        parts.append(
            f"## {title}\n\n{summary}\n\n| variable | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def find_settings_model(field: FieldInfo) -> type[BaseModel]:
    kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
    return next(kind for kind in kinds if issubclass(kind, BaseModel))


def _render_row(group: str, name: str, info: FieldInfo) -> str:
    meaning = (info.description or "").replace("|", "\\|")
    rules = _describe_rules(info)
    description = f"{meaning} ({rules})" if rules else meaning
    return f"| `{ENV_PREFIX}{group.upper()}_{name.upper()}` | {render_default(info)} | {description} |"


def render_default(info: FieldInfo) -> str:
    value: Any = info.default
    if value is PydanticUndefined or value is None or value == "":
        return ""
    if isinstance(value, SecretStr):
        return "" if not value.get_secret_value() else "(secret)"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Path):
        return f"`{value.as_posix()}`"
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    return f"`{value}`"


def _describe_rules(info: FieldInfo) -> str:
    kinds = (info.annotation, *get_args(info.annotation))
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    rules = ["one of " + ", ".join(f"`{choice}`" for choice in dict.fromkeys(choices))] if choices else []
    rules += [f"{BOUND_WORDS[type(rule)]} {_get_bound(rule)}" for rule in info.metadata if type(rule) in BOUND_WORDS]
    if SecretStr in kinds:
        rules.append("secret")
    return ", ".join(rules)


def _get_bound(rule: Ge | Gt | Le | Lt) -> str:
    return next(str(getattr(rule, name)) for name in ("ge", "gt", "le", "lt") if hasattr(rule, name))
