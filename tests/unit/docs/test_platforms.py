"""docs/platforms.md: the data it shows is what its commands read. What needs a platform runs in tests/platforms."""

from __future__ import annotations

import ast
import csv
import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from service.contracts import Assessment, LabelledSentence
from service.formats import read_sentences
from tests.support.command_harness import CommandHarness
from tests.support.docs_pages import DOCS, read_code_blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "platforms.md"
FILE = re.compile(r"labelwatch (?:score|send) (\S+)")
SHOWN = {"export.json", "records.json", "all.jsonl", "trips.jsonl", "annotated.conll", "train.jsonl", "texts.jsonl"}


@pytest.fixture
def desk(
    tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandHarness:
    monkeypatch.chdir(tmp_path)
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def test_what_is_shown_is_read(desk: CommandHarness) -> None:
    """A block of data is the file that the next commands name."""
    written: set[str] = set()
    shown: str | None = None
    for kind, block in read_code_blocks(PAGE):
        if kind in ("json", "text"):
            shown = block
        for line in block.splitlines() if kind == "sh" else ():
            name = FILE.match(line)
            if name is not None and shown is not None:
                (desk.folder / name[1]).write_text(shown)
                written.add(name[1])
                shown = None
            command, *arguments = shlex.split(line)
            assert command == "labelwatch"
            done = desk.run(*arguments)
            assert done.code == 0, f"{line}\n{done.err}"
            if name is not None and line.startswith("labelwatch score") and "ranked.jsonl" in line:
                (said,) = (desk.folder / "ranked.jsonl").read_text().splitlines()
                assert Assessment.model_validate_json(said).tokens[:2] == ("Mara", "Quill"), line
    assert written == SHOWN
    with (desk.folder / "ranked.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["doccano:1"]
    for corrected, given in (("corrected.jsonl", "all.jsonl"), ("corrected.conll", "annotated.conll")):
        (back,), (was,) = (list(read_sentences(desk.folder / file)) for file in (corrected, given))
        assert (back.tokens, back.labels) == (was.tokens, was.labels)
    assert json.loads((desk.folder / "corrected.jsonl").read_text()) == json.loads(
        (desk.folder / "all.jsonl").read_text()
    )
    (task,), (told,) = (json.loads((desk.folder / file).read_text()) for file in ("corrected.json", "export.json"))
    assert (task["id"], task["project"], task["data"]) == (told["id"], told["project"], told["data"])
    assert json.loads((desk.folder / "spans.jsonl").read_text())["spans"][0]["text"] == "Mara Quill"
    sent = [LabelledSentence.model_validate_json(one.value or b"") for one in desk.read_records(desk.topics.sentences)]
    assert {one.dataset for one in sent} == {"trips", "reports", "doccano", "prodigy", "columns", "hub", "texts"}
    assert {one.labels[:2] for one in sent} == {("B-PER", "I-PER"), ("I-PER", "I-PER")}
    assert next(one.source for one in sent if one.dataset == "trips") == "http://127.0.0.1:8080/projects/1/data?task=7"


def test_the_formats_of_the_page_are_all_there_are() -> None:
    from service.formats import FORMATS

    text = (DOCS / PAGE).read_text().lower()
    for name in set(FORMATS) - {"conll", "jsonl", "spans"}:
        assert re.search(name.replace("-", " ").replace("huggingface", "hugging face"), text), name


def test_the_programs_are_python() -> None:
    programs = [block for kind, block in read_code_blocks(PAGE) if kind == "python"]
    assert programs
    for program in programs:
        ast.parse(program)


def test_the_queries_are_those_of_the_routes() -> None:
    from schemas.generate import build_openapi

    text = (DOCS / PAGE).read_text()
    told = set(re.findall(r"[?&](\w+)=", text))
    known = {
        parameter["name"]
        for path in ("/v1/webhooks/label-studio", "/v1/webhooks/argilla", "/v1/score", "/v1/sentences")
        for parameter in build_openapi()["paths"][path]["post"]["parameters"]
    }
    assert told <= known
    assert told >= {"dataset", "field", "control", "question", "argilla_dataset", "format"}
