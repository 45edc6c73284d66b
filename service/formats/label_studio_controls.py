"""The controls for spans in a project of Label Studio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.formats.records import Options

CONFIG = "project.parsed_label_config"


@dataclass(frozen=True, slots=True)
class Control:
    """A `Labels` tag of the project's labelling interface, and the field of the text it is about."""

    name: str
    to_name: str
    text_field: str
    labels: tuple[str, ...]


def controls(config: object) -> list[Control]:
    """The span controls over text in a `parsed_label_config`."""
    found = []
    for name, control in config.items() if isinstance(config, dict) else ():
        if not isinstance(control, dict) or control.get("type") != "Labels":
            continue
        inputs, to_name, labels = (control.get(key) for key in ("inputs", "to_name", "labels"))
        first = inputs[0] if isinstance(inputs, list) and inputs else None
        if not isinstance(first, dict) or first.get("type") != "Text" or first.get("valueType") == "url":
            continue
        if isinstance(to_name, list) and to_name and isinstance(labels, list):
            field = str(first.get("value") or "").removeprefix("$")
            found.append(Control(str(name), str(to_name[0]), field, tuple(map(str, labels))))
    return found


def control_of(known: Sequence[Control], used: str | None, options: Options) -> Control | None:
    """The control that counts: the one that was asked for, else the one of the spans; none where nothing tells it."""
    named = options.label or used
    found = next((one for one in known if one.name == named), None)
    if found is None and known and options.label is not None:
        there = ", ".join(one.name for one in known)
        raise InvalidInput(f"there is no control {named} for spans of a text, only {there}", field=CONFIG)
    return found or (known[0] if len(known) == 1 else None)


def text_field(known: Sequence[Control], control: Control | None, options: Options) -> str:
    """The field of the text: never a guess where the project has several."""
    if options.word is not None:
        return options.word
    fields = sorted({one.text_field for one in ([control] if control else known)})
    if len(fields) > 1:
        raise InvalidInput(f"its controls are about {', '.join(fields)}: say which control counts", field=CONFIG)
    return (fields[0] if fields else "") or "text"
