"""The controls for spans in a project of Label Studio."""

from __future__ import annotations

from dataclasses import dataclass


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
