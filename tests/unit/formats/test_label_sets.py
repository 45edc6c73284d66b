"""Label sets from labelling interfaces, questions and labelled files; errors name what is wrong."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from service.errors import DecodeError, InvalidInput
from service.formats.label_sets import MAX_CONFIG_BYTES, find_label_set, parse_label_set, read_label_set

if TYPE_CHECKING:
    from pathlib import Path

INTERFACE = """<View>
  <Header value="Label it"/>
  <Labels name="label" toName="text">
    <Label value="DRUG" background="red"/>
    <View><Label value="Disease or syndrome" alias="DISEASE"/></View>
    <Label value="DRUG"/>
  </Labels>
  <Text name="text" value="$text"/>
</View>"""
TWO_CONTROLS = """<View>
  <Labels name="entities" toName="text"><Label value="DRUG"/></Labels>
  <Labels name="events" toName="text"><Label value="START"/></Labels>
  <Labels name="sounds" toName="audio"><Label value="NOISE"/></Labels>
  <Choices name="kind" toName="text"><Choice value="good"/></Choices>
  <Text name="text" value="$text"/><Audio name="audio" value="$audio"/>
</View>"""


def build_question(name: str, *values: str, kind: str = "span") -> dict[str, Any]:
    options = [{"value": value, "text": value.title(), "description": None} for value in values]
    return {"id": "4e8", "name": name, "settings": {"type": kind, "field": "text", "options": options}}


@pytest.mark.parametrize(
    "content",
    [
        INTERFACE,
        f"\ufeff\n{INTERFACE}",
        json.dumps({"id": 1, "title": "Trial", "label_config": INTERFACE}),
        json.dumps(
            {
                "label_config": "<View/>",
                "parsed_label_config": {
                    "label": {
                        "type": "Labels",
                        "to_name": ["text"],
                        "inputs": [{"type": "Text", "value": "text"}],
                        "labels": ["DRUG", "DISEASE"],
                    }
                },
            }
        ),
        json.dumps({"name": "trial", "questions": [build_question("label", "DRUG", "DISEASE")]}),
        json.dumps(
            {
                "items": [
                    build_question("tone", "good", kind="label_selection"),
                    build_question("label", "DRUG", "DISEASE"),
                ]
            }
        ),
        json.dumps(build_question("label", "DRUG", "DISEASE")),
        json.dumps({"name": "label", "settings": {"type": "span", "options": ["DRUG", "DISEASE"]}}),
    ],
    ids=["xml", "xml-bom", "project", "parsed-project", "dataset", "questions", "question", "options-as-text"],
)
def test_a_configuration_defines_the_label_set(content: str) -> None:
    label_set = parse_label_set(content.encode())
    assert label_set.types == ("DRUG", "DISEASE")
    assert label_set.description in {"the control label", "the question label"}


def test_the_control_or_question_can_be_named() -> None:
    assert parse_label_set(TWO_CONTROLS.encode(), name="events").types == ("START",)
    questions = {"questions": [build_question("one", "A"), build_question("two", "B")]}
    assert parse_label_set(json.dumps(questions).encode(), name="two").types == ("B",)


@pytest.mark.parametrize(
    ("content", "name", "problem"),
    [
        (TWO_CONTROLS, None, "several controls for spans: say which counts, of entities, events"),
        (TWO_CONTROLS, "sounds", "no control 'sounds' for spans of a text, only entities, events"),
        ("<View><Text name='text' value='$text'/></View>", None, "no <Labels> control over a <Text>"),
        (
            "<View><Labels name='l' toName='t'/><Text name='t' value='$t'/></View>",
            None,
            "the control l names no labels",
        ),
        ("<View>\n<Labels", None, "not XML: unclosed token in line 2"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', None, "document type declaration: leave the line"),
        (json.dumps({"label_config": "<View"}), None, "`label_config`: the labelling interface is not XML"),
        (
            json.dumps({"questions": [build_question("tone", "a", kind="text")]}),
            None,
            "`questions`: it has no question",
        ),
        (json.dumps(build_question("label")), None, "the question label names no labels"),
        ("[1, 2]", None, "it defines no label set: send the XML"),
        ('{"tokens": ["Oslo"], "labels": ["B-LOC"]}', None, "it defines no label set"),
        ("", None, "it defines no label set"),
    ],
)
def test_an_unusable_configuration_says_why(content: str, name: str | None, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_label_set(content.encode(), name=name)
    assert problem in str(caught.value)


def test_xml_is_utf_8() -> None:
    with pytest.raises(DecodeError, match="not UTF-8"):
        parse_label_set("<View title='é'/>".encode("latin-1"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("med.conll", "Aspirin B-DRUG\nhelps O\nacute B-PAIN\nback I-PAIN\npain I-PAIN\n"),
        ("med.txt", "Aspirin DRUG\nhelps O\nacute PAIN\nback PAIN\npain PAIN\n"),
        (
            "med.jsonl",
            '{"tokens": ["acute", "pain"], "labels": ["B-PAIN", "I-PAIN"]}\n{"tokens": ["X"], "labels": ["B-DRUG"]}\n',
        ),
    ],
)
def test_the_types_of_a_labelled_file_are_its_label_set(tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    label_set = read_label_set(str(file))
    assert label_set.types == ("PAIN", "DRUG")
    assert "DRUG 1" in label_set.description


def test_a_configuration_file_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "interface.xml"
    file.write_text(INTERFACE)
    assert read_label_set(str(file)).types == ("DRUG", "DISEASE")
    for content in (INTERFACE.encode(), b"Aspirin B-DRUG\nand O\nflu B-DISEASE\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert read_label_set("-").types == ("DRUG", "DISEASE")


def test_a_file_without_entities_has_no_label_set(tmp_path: Path) -> None:
    file = tmp_path / "plain.conll"
    file.write_text("helps O\n")
    with pytest.raises(InvalidInput, match="no sentence in it has a labelled entity"):
        read_label_set(str(file))
    with pytest.raises(InvalidInput, match="No such file"):
        read_label_set(str(tmp_path / "missing"))


def test_a_large_file_is_read_as_sentences(tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    line = json.dumps({"tokens": ["Aspirin"], "labels": ["B-DRUG"], "meta": {"text": "x" * 3_000}})
    file.write_text(f"{line}\n" * (MAX_CONFIG_BYTES // len(line) + 2))
    assert read_label_set(str(file)).types == ("DRUG",)


def test_what_is_no_configuration_is_not_found() -> None:
    assert find_label_set(b'{"tokens": []}') is None
    assert find_label_set(b"{broken") is None
