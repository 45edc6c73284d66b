"""schemas/asyncapi.yaml by the AsyncAPI parser, and against the topics and keys that the code has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas import events, generate, messages
from service.contracts import Claim, Decision
from service.log import codec
from service.log.topics import Topics
from service.review.messages import build_claim_message, build_decision_message
from tests.support.node_packages import install_packages

TOOL = Path(__file__).with_name("asyncapi")
FILE = generate.HERE / "asyncapi.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text())
ERROR, WARNING = 0, 1


def diagnostics(file: Path) -> tuple[int, list[dict[str, Any]]]:
    packages = install_packages(TOOL)
    done = subprocess.run(
        ["node", TOOL / "validate.js", file], cwd=packages, capture_output=True, text=True, check=False
    )
    assert not done.stderr, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_parser_accepts_it() -> None:
    code, found = diagnostics(FILE)
    assert [one for one in found if one["severity"] <= WARNING] == []
    assert code == 0


def test_the_parser_reports_a_mistake(tmp_path: Path) -> None:
    for path in generate.HERE.glob("*.schema.json"):
        (tmp_path / path.name).write_text(path.read_text())
    broken = tmp_path / "asyncapi.yaml"
    broken.write_text(FILE.read_text().replace("action: receive", "action: eat", 1))
    code, found = diagnostics(broken)
    assert code == 1
    assert [one for one in found if one["severity"] == ERROR]


def test_every_topic_has_a_channel() -> None:
    addresses = {channel["address"]: channel for channel in DOCUMENT["channels"].values()}
    specs = {spec.name: spec for spec in Topics().list_specs()}
    assert set(addresses) == set(specs)
    for name, channel in addresses.items():
        kept = channel["bindings"]["kafka"]["topicConfiguration"]
        assert kept == {
            "cleanup.policy": [specs[name].cleanup_policy],
            "max.message.bytes": specs[name].max_message_bytes,
        }


def test_every_message_is_on_a_channel_and_every_file_is_there() -> None:
    used = {name for channel in DOCUMENT["channels"].values() for name in channel["messages"]}
    assert used == set(DOCUMENT["components"]["messages"])
    assert {one.name for one in messages.CONTRACTS} <= used
    for file in re.findall(r"\$ref: (\./\S+)", FILE.read_text()):
        assert (generate.HERE / file).is_file()


@pytest.mark.parametrize("name", ["SENTENCE_EVENT_TYPE", "ASSESSMENT_EVENT_TYPE", "DATASET_EVENT_TYPE"])
def test_event_types_are_the_names_of_messages(name: str) -> None:
    assert getattr(codec, name) in {message["name"] for message in DOCUMENT["components"]["messages"].values()}


def test_keys_are_as_the_code_makes_them() -> None:
    topics = Topics()
    examples = {one.name: one.key_example.encode() for one in messages.CONTRACTS}
    about = {"dataset": "news", "id": "4711", "reviewer": "anna"}
    decision = build_decision_message(topics, Decision.model_validate({**about, "verdict": "ok"}))
    claim = build_claim_message(topics, Claim.model_validate(about))
    assert (decision.key, claim.key) == (examples["decision.v1"], examples["claim.v1"])
    for output, name in ((decision, "decision.v1"), (claim, "claim.v1")):
        kind = codec.get_header(output.headers, "ce_type")
        assert kind == f"labelwatch.{name}"
    assert json.loads(codec.to_position_key(3)) == ["position", 3]
    assert json.loads(codec.to_state_key(3, "news", "k")) == ["stats", 3, "news", "k"]
    assert json.loads(codec.to_memory_key(3, "news", "k/0", "recent")) == ["memory", 3, "news", "k/0/recent"]
    assert json.loads(codec.to_annotator_key(3, "news", "k/0", "kim")) == ["annotator", 3, "news", "k/0/kim"]
    assert json.loads(codec.to_arrivals_key(3, "news")) == ["arrivals", 3, "news", ""]
    assert json.loads(codec.to_batches_key(3, "news")) == ["batches", 3, "news", "batches"]
    assert set(events.TOPIC_USAGES) == {spec.name.removeprefix(topics.prefix) for spec in topics.list_specs()}
