"""Parses the labelling interface of a Label Studio project: the XML of its settings page and of `label_config`."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from service.errors import DecodeError, InvalidInput

_LABEL_TAG = "Label"


def parse_labeling_xml(text: str, *, field: str | None = None) -> dict[str, Any]:
    """The controls by name, in the form of Label Studio's `parsed_label_config`."""
    parser = expat.ParserCreate()
    tags: list[tuple[str, dict[str, str], list[str]]] = []  # tag, attributes, values of the labels in it
    open_tags: list[int] = []

    def start_tag(tag: str, attributes: dict[str, str]) -> None:
        if tag == _LABEL_TAG:
            # Results name a label by its alias if it has one.
            value = attributes.get("alias") or attributes.get("value")
            if value and open_tags:
                for index in open_tags:  # labels may be grouped by tags between the control and them
                    tags[index][2].append(value)
        open_tags.append(len(tags))
        tags.append((tag, attributes, []))

    def end_tag(_: str) -> None:
        open_tags.pop()

    def refuse_document_type(*_: object) -> None:
        raise InvalidInput("it has a document type declaration: leave the line with <!DOCTYPE out", field=field)

    parser.StartElementHandler = start_tag
    parser.EndElementHandler = end_tag
    parser.StartDoctypeDeclHandler = refuse_document_type  # entities could grow without limit
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise DecodeError(
            f"the labelling interface is not XML: {expat.ErrorString(error.code)} in line {error.lineno}", field=field
        ) from None
    return _build_config(tags)


def _build_config(tags: list[tuple[str, dict[str, str], list[str]]]) -> dict[str, Any]:
    inputs = {
        attributes["name"]: {
            "type": tag,
            "value": attributes.get("value", "").removeprefix("$"),
            "valueType": attributes.get("valueType"),
        }
        for tag, attributes, _ in tags
        if "name" in attributes and "toName" not in attributes
    }
    config: dict[str, Any] = {}
    for tag, attributes, labels in tags:
        if "name" not in attributes or "toName" not in attributes:
            continue
        to_name = attributes["toName"].split(",")
        config[attributes["name"]] = {
            "type": tag,
            "to_name": to_name,
            "inputs": [inputs[name] for name in to_name if name in inputs],
            "labels": labels,
        }
    return config
