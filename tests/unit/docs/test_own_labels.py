"""docs/own-labels.md: blocks marked `sh` or `python` run in order, in a folder with the samples.

The export to ONNX needs PyTorch and does not run: a model of the same layout stands in for its result.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from service.formats import read_sentences
from service.labels import Scheme, parse_spans
from service.training.figures import WARN_SENTENCES
from service.training.sentences import MIN_SENTENCES, MIN_TYPE_EXAMPLES
from tests.support.command_harness import CommandHarness
from tests.support.docs_pages import DOCS, ROOT, read_code_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from service.contracts import LabelledSentence

PAGE = "own-labels.md"
WAIT_TIMEOUT_S = 120


def build_task(number: int, sentence: LabelledSentence) -> dict[str, Any]:
    """A task with its annotation, as Label Studio exports it."""
    text = " ".join(sentence.tokens)
    starts = [0]
    for word in sentence.tokens:
        starts.append(starts[-1] + len(word) + 1)
    result = [
        {
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "value": {
                "start": starts[span.start],
                "end": starts[span.end] - 1,
                "text": text[starts[span.start] : starts[span.end] - 1],
                "labels": [span.type],
            },
        }
        for span in parse_spans(sentence.labels, Scheme.IOB2)
    ]
    return {"id": number, "data": {"text": text}, "annotations": [{"id": number, "result": result}]}


@pytest.fixture
def harness(
    tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandHarness:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "models" / "sample", tmp_path / "models" / "sample")
    shutil.copytree(tiny_model, tmp_path / "exported")
    news = (ROOT / "models" / "sample" / "sample.tsv").read_text().split("\n\n")[:20]
    (tmp_path / "news.conll").write_text("\n\n".join(news) + "\n")
    sentences = read_sentences(ROOT / "models" / "sample" / "biomedical.tsv")
    (tmp_path / "export.json").write_text(json.dumps([build_task(i, each) for i, each in enumerate(sentences, 1)]))
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def test_the_commands_run_in_order(harness: CommandHarness) -> None:
    folder = harness.folder
    for kind, block in read_code_blocks(PAGE):
        if kind == "python":
            subprocess.run([sys.executable, "-c", block], cwd=folder, check=True)
        for line in block.splitlines() if kind == "sh" else ():
            words = shlex.split(line)
            if words[0] == "cp":
                shutil.copyfile(words[1], words[2])
                continue
            variables = dict(word.split("=", 1) for word in words if word.startswith("LABELWATCH_"))
            name, *arguments = words[len(variables) :]
            assert name == "labelwatch"
            if arguments == ["up"]:
                judge_with_service(harness)
                continue
            result = harness.run(*arguments, **variables)
            assert result.code == 0, f"{line}\n{result.err}"
    models = folder / ".labelwatch" / "models"
    assert sorted(path.name for path in models.iterdir()) == ["german", "med", "med-2", "project", "tagger"]
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    given, corrected = (list(read_sentences(folder / name)) for name in ("med.conll", "corrected.conll"))
    assert [(each.tokens, each.labels) for each in corrected] == [(each.tokens, each.labels) for each in given]
    assert len((folder / "ranked.jsonl").read_text().splitlines()) == len(given)


def judge_with_service(harness: CommandHarness) -> None:
    """Runs `labelwatch up` until it has put a sentence into review, which the dataset's own model has judged."""
    process = harness.start(
        "up",
        LABELWATCH_MODELS_PATH=str(harness.folder / ".labelwatch" / "models"),
        LABELWATCH_API_PORT="0",
        LABELWATCH_API_QUEUE_PATH=str(harness.folder / "queue.sqlite"),
    )
    try:
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while not harness.read_assessments():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert {assessment.model.name for assessment in harness.read_assessments()} == {"med"}


def test_most_planted_errors_are_among_the_worst(harness: CommandHarness) -> None:
    """The page promises a useful order: of ten planted errors in 122 sentences, half are among the ten worst."""
    result = harness.run("train", "models/sample/biomedical.tsv", "--name", "med")
    assert result.code == 0, result.err
    shown = {int(number) - 1 for number in re.findall(r" biomedical\.tsv:(\d+) ", result.out)}
    given, truth = (
        list(read_sentences(ROOT / "models" / "sample" / f"biomedical{suffix}.tsv")) for suffix in ("", ".truth")
    )
    wrong = {i for i, (one, other) in enumerate(zip(given, truth, strict=True)) if one.labels != other.labels}
    assert len(shown) == 10
    assert len(shown & wrong) >= 5


def test_the_numbers_are_those_of_the_code() -> None:
    text = " ".join((DOCS / PAGE).read_text().split())
    assert f"refuses fewer than {MIN_SENTENCES} sentences and warns below {WARN_SENTENCES}" in text
    assert f"fewer than {MIN_TYPE_EXAMPLES} examples are not judged" in text


def test_the_steps_of_the_export_are_before_those_that_use_it() -> None:
    blocks = [block for _, block in read_code_blocks(PAGE)]
    (use,) = [after for before, after in pairwise(blocks) if "optimum-cli" in before]
    assert use.startswith("labelwatch model add exported")
