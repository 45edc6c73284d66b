"""The requests that quick-start.md and producers.md show, sent with curl to a service as it is started."""

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
PATIENCE = 120.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with the default model on the embedded log; it must also end well."""
    desk = CommandHarness(tmp_path_factory.mktemp("up"), find_default_model())
    process = desk.start("up", LABELWATCH_API_PORT="0")
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = re.search(r"http://[^/]+", ready)
        assert found is not None, ready or process.communicate()[1]
        yield found[0]
    finally:
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err


def shell(command: str, address: str) -> str:
    told = command.replace(ADDRESS, address).replace("curl -s ", "curl -sS --fail-with-body ")
    done = subprocess.run(["sh", "-c", told], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def answers(page: str, kind: str, address: str) -> dict[str, str]:
    """What came back, by path; a decision waits until its item is in the queue."""
    found = {}
    for _, block in (each for each in read_code_blocks(page) if each[0] == kind):
        for line in block.splitlines():
            path = re.search(rf"{ADDRESS}(/[^\s'?]*)", line)
            assert path is not None, line
            if path[1] == "/v1/decisions":
                item(address, json.loads(line.split(" -d ")[1].strip("'")))
            found[path[1]] = shell(line, address)
    return found


def item(address: str, wanted: dict[str, Any]) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        page = json.loads(shell(f"curl -s '{ADDRESS}/v1/review?dataset={wanted['dataset']}'", address))
        for one in page["items"]:
            if one["id"] == wanted["id"]:
                return dict(one)
        time.sleep(0.1)
    raise AssertionError(f"{wanted['id']} never came to the queue")


def test_the_quick_start_does_what_it_says(address: str) -> None:
    found = answers("quick-start.md", "sh", address)
    (scored,) = json.loads(found["/v1/score"])["assessments"]
    assert [(flag["token"], flag["suggested"]) for flag in scored["flags"]] == [("Oslo", "B-LOC")]
    assert json.loads(found["/v1/sentences"])["ids"] == ["1", "2"]
    assert json.loads(found["/readyz"])["ready"] is True
    assert "labelwatch_ready" in found["/metrics"]
    assert set(found) >= {"/v1/review", "/v1/decisions", "/v1/datasets/news/thresholds"}


def test_the_review_requests_work(address: str) -> None:
    """On the first sentence of the quick start, which is sent here where it was not yet."""
    (sent,) = [
        line
        for _, block in read_code_blocks("quick-start.md")
        for line in block.splitlines()
        if "/v1/sentences" in line
    ]
    shell(sent, address)
    requests = [line for kind, block in read_code_blocks("review.md") if kind == "http" for line in block.splitlines()]
    page, claim, decided, back, let_go = requests
    end = time.monotonic() + PATIENCE
    while "1" not in [one["id"] for one in json.loads(shell(page, address))["items"]]:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert json.loads(shell(claim, address))["reviewer"] == "dana"
    assert [json.loads(shell(line, address))["accepted"] for line in (decided, back)] == [1, 1]
    assert json.loads(shell(let_go, address))["until"] is None


def test_the_producers_requests_work(address: str) -> None:
    requests = [
        line for kind, block in read_code_blocks("producers.md") if kind == "http" for line in block.splitlines()
    ]
    one, lines, spans = (shell(line, address) for line in requests)
    assert json.loads(one)["ids"] == ["4713"]
    good, bad = map(json.loads, lines.splitlines())
    assert good["line"] == 1
    assert good["id"]
    assert (bad["line"], bad["status"], bad["field"]) == (2, 422, "labels")
    (record,) = json.loads(spans)["records"]
    assert record["sentences"] == [{"id": "4714", "alignment": "exact", "deleted": False}]


def test_the_platforms_requests_work(address: str) -> None:
    requests = [
        line for kind, block in read_code_blocks("platforms.md") if kind == "http" for line in block.splitlines()
    ]
    scored, sent = (json.loads(shell(line, address)) for line in requests)
    (assessment,) = scored["assessments"]
    assert [flag["token"] for flag in assessment["flags"]] == ["Riga"]
    assert sent["ids"] == ["label-studio:61", "label-studio:62"]
    assert [one["deleted"] for one in sent["records"][0]["sentences"]] == [False, True]
