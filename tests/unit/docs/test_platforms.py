"""docs/platforms.md: its commands read the data it shows. Commands that need a platform run in tests/platforms."""

from __future__ import annotations

import ast
import csv
import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from service.api.ingest.delivery_file import MAX_EVENT_KEYS
from service.contracts import Assessment, LabelledSentence
from service.formats import read_sentences
from tests.support.command_harness import CommandHarness
from tests.support.docs_pages import DOCS, read_code_blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "platforms.md"
FILE_ARGUMENT = re.compile(r"labelwatch (?:score|send) (\S+)")
SHOWN_FILES = {
    "export.json",
    "records.json",
    "all.jsonl",
    "trips.jsonl",
    "annotated.conll",
    "train.jsonl",
    "texts.jsonl",
}


@pytest.fixture
def harness(
    tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandHarness:
    monkeypatch.chdir(tmp_path)
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def test_commands_read_the_data_before_them(harness: CommandHarness) -> None:
    """A block of data is the file that the next command names."""
    written: set[str] = set()
    data: str | None = None
    for kind, block in read_code_blocks(PAGE):
        if kind in ("json", "text"):
            data = block
        for line in block.splitlines() if kind == "sh" else ():
            file_name = FILE_ARGUMENT.match(line)
            if file_name is not None and data is not None:
                (harness.folder / file_name[1]).write_text(data)
                written.add(file_name[1])
                data = None
            command, *arguments = shlex.split(line)
            assert command == "labelwatch"
            result = harness.run(*arguments)
            assert result.code == 0, f"{line}\n{result.err}"
            if file_name is not None and line.startswith("labelwatch score") and "ranked.jsonl" in line:
                (ranked,) = (harness.folder / "ranked.jsonl").read_text().splitlines()
                assert Assessment.model_validate_json(ranked).tokens[:2] == ("Mara", "Quill"), line
    assert written == SHOWN_FILES
    with (harness.folder / "ranked.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["doccano:1"]
    for corrected_name, given_name in (("corrected.jsonl", "all.jsonl"), ("corrected.conll", "annotated.conll")):
        (corrected,), (given,) = (list(read_sentences(harness.folder / name)) for name in (corrected_name, given_name))
        assert (corrected.tokens, corrected.labels) == (given.tokens, given.labels)
    assert json.loads((harness.folder / "corrected.jsonl").read_text()) == json.loads(
        (harness.folder / "all.jsonl").read_text()
    )
    (corrected_task,), (task,) = (
        json.loads((harness.folder / name).read_text()) for name in ("corrected.json", "export.json")
    )
    assert all(corrected_task[field] == task[field] for field in ("id", "project", "data"))
    assert json.loads((harness.folder / "spans.jsonl").read_text())["spans"][0]["text"] == "Mara Quill"
    sentences = [
        LabelledSentence.model_validate_json(record.value or b"")
        for record in harness.read_records(harness.topics.sentences)
    ]
    assert {sentence.dataset for sentence in sentences} == {
        "trips",
        "reports",
        "doccano",
        "prodigy",
        "columns",
        "hub",
        "texts",
    }
    assert {sentence.labels[:2] for sentence in sentences} == {("B-PER", "I-PER"), ("I-PER", "I-PER")}
    link = next(sentence.source for sentence in sentences if sentence.dataset == "trips")
    assert link == "http://127.0.0.1:8080/projects/1/data?task=7"


def test_the_page_names_every_format() -> None:
    from service.formats import FORMATS

    text = (DOCS / PAGE).read_text().lower()
    for name in set(FORMATS) - {"conll", "jsonl", "spans"}:
        assert re.search(name.replace("-", " ").replace("huggingface", "hugging face"), text), name


def test_the_number_of_remembered_deliveries_is_that_of_the_code() -> None:
    keys_per_delivery = 2  # its id and its body
    assert f"last {MAX_EVENT_KEYS // keys_per_delivery:,} deliveries" in (DOCS / PAGE).read_text()


def test_programs_are_valid_python() -> None:
    programs = [block for kind, block in read_code_blocks(PAGE) if kind == "python"]
    assert programs
    for program in programs:
        ast.parse(program)


def test_query_parameters_are_those_of_the_routes() -> None:
    from schemas.generate import build_openapi

    text = (DOCS / PAGE).read_text()
    named = set(re.findall(r"[?&](\w+)=", text))
    paths = build_openapi()["paths"]
    known = {
        parameter["name"]
        for path in ("/v1/webhooks/label-studio", "/v1/webhooks/argilla", "/v1/score", "/v1/sentences")
        for parameter in paths[path]["post"]["parameters"]
    }
    of_export = {parameter["name"] for parameter in paths["/v1/export"]["get"]["parameters"]}
    section = text.partition("### Export over REST\n")[2].partition("\n#")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == of_export
    assert named <= known | of_export
    assert named >= {"dataset", "field", "control", "question", "argilla_dataset", "format"}
