"""The requests that the pages show, sent with curl to a running service."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from service.inference.model.default import find_default_model
from tests.support.command_harness import CommandHarness
from tests.support.docs_pages import read_code_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "http://127.0.0.1:8765"
WAIT_TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with the default model on the embedded log. It must end with exit code 0."""
    harness = CommandHarness(tmp_path_factory.mktemp("up"), find_default_model())
    process = harness.start("up", LABELWATCH_API_PORT="0")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.search(r"http://[^/]+", line)
        assert url is not None, line or process.communicate()[1]
        yield url[0]
    finally:
        process.terminate()
        stdout, stderr = process.communicate(timeout=WAIT_TIMEOUT_S)
    assert process.returncode == 0, stdout + stderr


def run_shell(command: str, address: str) -> str:
    line = command.replace(ADDRESS, address).replace("curl -s ", "curl -sS --fail-with-body ")
    result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


def send_requests(page: str, kind: str, address: str) -> dict[str, str]:
    """The responses, by path. A decision is sent when its item is in the queue."""
    responses = {}
    for block_kind, block in read_code_blocks(page):
        for line in block.splitlines() if block_kind == kind else ():
            path = re.search(rf"{ADDRESS}(/[^\s'?]*)", line)
            assert path is not None, line
            if path[1] == "/v1/decisions":
                wait_for_item(address, json.loads(line.split(" -d ")[1].strip("'")))
            responses[path[1]] = run_shell(line, address)
    return responses


def wait_for_item(address: str, decision: dict[str, Any]) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while time.monotonic() < deadline:
        page = json.loads(run_shell(f"curl -s '{ADDRESS}/v1/review?state=all&dataset={decision['dataset']}'", address))
        if any(item["id"] == decision["id"] for item in page["items"]):
            return
        time.sleep(0.1)
    raise AssertionError(f"{decision['id']} did not appear in the queue")


def test_quick_start_requests_work(address: str) -> None:
    responses = send_requests("quick-start.md", "sh", address)
    (scored,) = json.loads(responses["/v1/score"])["assessments"]
    assert [(flag["token"], flag["suggested"]) for flag in scored["flags"]] == [("Oslo", "B-LOC")]
    assert json.loads(responses["/v1/sentences"])["ids"] == ["1", "2"]
    assert json.loads(responses["/readyz"])["ready"] is True
    assert "labelwatch_ready" in responses["/metrics"]
    assert set(responses) >= {"/v1/review", "/v1/decisions", "/v1/datasets/news/thresholds"}


def test_review_requests_work(address: str) -> None:
    """They are about the first sentence of the quick start, which is sent here first."""
    (send_request,) = [
        line
        for _, block in read_code_blocks("quick-start.md")
        for line in block.splitlines()
        if "/v1/sentences" in line
    ]
    run_shell(send_request, address)
    requests = [line for kind, block in read_code_blocks("review.md") if kind == "http" for line in block.splitlines()]
    page, claim, decide, withdraw, release, cell, selection, apply, undo, progress, similar, search = requests
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while "1" not in [item["id"] for item in json.loads(run_shell(page, address))["items"]]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert json.loads(run_shell(claim, address))["reviewer"] == "dana"
    assert [json.loads(run_shell(line, address))["accepted"] for line in (decide, withdraw)] == [1, 1]
    assert json.loads(run_shell(release, address))["until"] is None
    assert json.loads(run_shell(cell, address))["action"] == "accept"
    assert json.loads(run_shell(selection, address))["total"] == 1
    for line in (apply, undo):  # the quick start has a decision about the item, so it may be left out
        answer = json.loads(run_shell(line, address))
        assert answer["accepted"] + len(answer["left_out"]) == 1
    assert json.loads(run_shell(progress, address))["decided"] >= 0
    assert json.loads(run_shell(similar, address))["same_words"]["phrases"] == [["Oslo"]]
    assert [item["id"] for item in json.loads(run_shell(search, address))["items"]] == ["1"]


def test_teams_requests_work(address: str) -> None:
    requests = [line for kind, block in read_code_blocks("teams.md") if kind == "http" for line in block.splitlines()]
    next_item, settings, adjudication, agreement = (json.loads(run_shell(line, address)) for line in requests)
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while agreement["overlap"] != 2:  # the queue reads the settings from their topic
        assert time.monotonic() < deadline
        time.sleep(0.1)
        agreement = json.loads(run_shell(requests[-1], address))
    assert (agreement["dataset"], agreement["pairs"]) == ("team", [])
    assert next_item["item"] is None
    assert (settings["name"], settings["overlap"]) == ("team", 2)
    assert adjudication["items"] == []


def test_annotators_requests_work(address: str) -> None:
    """They are about the annotator of the quick start, whose sentences are sent here."""
    (send_request,) = [
        line
        for _, block in read_code_blocks("quick-start.md")
        for line in block.splitlines()
        if "/v1/sentences" in line
    ]
    run_shell(send_request, address)
    requests = [
        line for kind, block in read_code_blocks("annotators.md") if kind == "http" for line in block.splitlines()
    ]
    every, one, items = requests
    wait_for_item(address, {"dataset": "news", "id": "1"})
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while '"news"' not in run_shell(f"curl -s {ADDRESS}/v1/datasets", address):  # the statistics have their own topic
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = json.loads(run_shell(every, address))
    assert (found["annotators"][0]["annotator"], found["not_shown"]) == ("kim", None)
    assert json.loads(run_shell(one, address))["annotators"][0]["annotator"] == "kim"
    assert "items" in json.loads(run_shell(items, address))


def test_producers_requests_work(address: str) -> None:
    requests = [
        line for kind, block in read_code_blocks("producers.md") if kind == "http" for line in block.splitlines()
    ]
    sentence, lines, spans = (run_shell(line, address) for line in requests)
    assert json.loads(sentence)["ids"] == ["4713"]
    good, bad = map(json.loads, lines.splitlines())
    assert good["line"] == 1
    assert good["id"]
    assert (bad["line"], bad["status"], bad["field"]) == (2, 422, "labels")
    (record,) = json.loads(spans)["records"]
    assert record["sentences"] == [{"id": "4714", "alignment": "exact", "deleted": False}]


def test_platforms_requests_work(address: str) -> None:
    requests = [
        line for kind, block in read_code_blocks("platforms.md") if kind == "http" for line in block.splitlines()
    ]
    scored, sent = (json.loads(run_shell(line, address)) for line in requests)
    (assessment,) = scored["assessments"]
    assert [flag["token"] for flag in assessment["flags"]] == ["Riga"]
    assert sent["ids"] == ["label-studio:61", "label-studio:62"]
    assert [sentence["deleted"] for sentence in sent["records"][0]["sentences"]] == [False, True]
