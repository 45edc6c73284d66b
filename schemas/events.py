"""Builds asyncapi.yaml: a channel for each topic, with keys, headers and the topic's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from schemas.messages import CONTRACTS
from service import __version__
from service.log.topics import Topics, TopicSpec
from service.review.messages import CLAIM_PARTITION
from service.settings import TopicSettings

BINDING = "0.5.0"
Action = Literal["receive", "send"]


@dataclass(frozen=True)
class TopicUsage:
    """What a topic is for, its messages, and whether the service reads it, writes it, or both."""

    text: str
    messages: tuple[str, ...]
    actions: tuple[Action, ...]


# By topic name without its prefix.
TOPIC_USAGES = {
    "sentences": TopicUsage(
        "Labelled sentences, as they are annotated: the input", ("sentence.v1",), ("receive", "send")
    ),
    "review": TopicUsage("Assessments that a reviewer should look at", ("assessment.v1",), ("send", "receive")),
    "scores": TopicUsage(
        "Every assessment, where LABELWATCH_WORKER_PUBLISH_SCORES is true", ("assessment.v1",), ("send",)
    ),
    "dead-letters": TopicUsage(
        "Messages that can't be assessed, with their original bytes and the reason in headers",
        ("dead-letter.v1",),
        ("send",),
    ),
    "waiting": TopicUsage(
        "Sentences of datasets that no model fits, with their original bytes, until the dataset has a model; internal, "
        "read it but don't write it",
        ("waiting.v1",),
        ("send", "receive"),
    ),
    "state": TopicUsage(
        "Running statistics, memories, sums of annotators, counts of arrivals and of batches, and positions; internal, read it "
        "but don't write it",
        ("state.v1", "memory.v1", "history.v1", "arrivals.v1", "annotator.v1", "batches.v1", "position.v1"),
        ("send", "receive"),
    ),
    "datasets": TopicUsage("Settings of datasets; the highest version counts", ("dataset.v1",), ("receive", "send")),
    "models": TopicUsage(
        "Trainings of the models of datasets: how far, how good, in use or not and why; and requests to train now",
        ("training.v1", "training-request.v1"),
        ("send", "receive"),
    ),
    "keys": TopicUsage(
        "Keys of the API: names, roles and hashes; write it with `labelwatch key` or /v1/keys only",
        ("key.v1",),
        ("receive", "send"),
    ),
    "audit": TopicUsage(
        "Who changed what: decisions, settings, trainings, replays and keys", ("audit.v1",), ("send", "receive")
    ),
    "webhooks": TopicUsage(
        "Endpoints of outgoing webhooks, notifications that wait for delivery or failed, and how far other topics are read; "
        "internal, read it but don't write it",
        ("webhook-endpoint.v1", "webhook-status.v1", "notification.v1"),
        ("send", "receive"),
    ),
    "decisions": TopicUsage(
        f"Decisions of reviewers, and claims: items that they have open. All claims go to partition {CLAIM_PARTITION}, "
        "whatever their key, so that all readers see them in the same order",
        ("decision.v1", "claim.v1"),
        ("receive", "send"),
    ),
}
STATE_KEYS = {
    "state.v1": '["stats", source partition, dataset, statistics key]',
    "memory.v1": '["memory", source partition, dataset, statistics key + "/recent"]',
    "history.v1": '["memory", source partition, dataset, statistics key + "/history"]',
    "annotator.v1": '["annotator", source partition, dataset, statistics key + "/" + annotator]',
    "arrivals.v1": '["arrivals", source partition, dataset, ""]',
    "batches.v1": '["batches", source partition, dataset, "batches"]',
    "position.v1": '["position", source partition]',
}


def build_document() -> dict[str, Any]:
    topics = Topics()
    specs = {spec.name.removeprefix(topics.prefix): spec for spec in topics.list_specs()}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "labelwatch",
            "version": __version__,
            "description": "The topics of labelwatch, with the default prefix `labelwatch.` (LABELWATCH_TOPICS_PREFIX). "
            "Readers must read committed messages only, and ignore fields they don't know.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {_to_channel_id(name): _build_channel(spec, TOPIC_USAGES[name]) for name, spec in specs.items()},
        "operations": {
            f"{action}_{_to_channel_id(name)}": _build_operation(action, name)
            for name in specs
            for action in TOPIC_USAGES[name].actions
        },
        "components": {"messages": _build_messages()},
    }


def _to_channel_id(name: str) -> str:
    return name.replace("-", "_")


def _make_message_ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/messages/{name}"}


def _build_channel(spec: TopicSpec, usage: TopicUsage) -> dict[str, Any]:
    settings = TopicSettings()
    partitions = spec.partitions or settings.partitions
    note = " It has one partition for each partition of the input." if spec.per_source_partition else ""
    return {
        "address": spec.name,
        "description": f"{usage.text}.{note}",
        "messages": {name: _make_message_ref(name) for name in usage.messages},
        "bindings": {
            "kafka": {
                "partitions": partitions,
                "replicas": settings.replication,
                "topicConfiguration": {
                    "cleanup.policy": [spec.cleanup_policy],
                    "max.message.bytes": spec.max_message_bytes,
                },
                "bindingVersion": BINDING,
            }
        },
    }


def _build_operation(action: Action, name: str) -> dict[str, Any]:
    verb = "Reads" if action == "receive" else "Writes"
    return {
        "action": action,
        "summary": f"{verb} {name}",
        "channel": {"$ref": f"#/channels/{_to_channel_id(name)}"},
        "messages": [
            {"$ref": f"#/channels/{_to_channel_id(name)}/messages/{message}"} for message in TOPIC_USAGES[name].messages
        ],
    }


def _build_messages() -> dict[str, Any]:
    headers = _make_file_ref("event-headers.v1")
    messages = {
        contract.name: {
            "name": f"labelwatch.{contract.name}",
            "title": contract.model.__name__,
            "contentType": "application/json",
            "payload": _make_file_ref(contract.name),
            "bindings": _build_key_binding(contract.key, contract.key_example),
            # A producer may send any headers.
            **({} if contract.name == "sentence.v1" else {"headers": headers}),
        }
        for contract in CONTRACTS
    }
    for name, key in STATE_KEYS.items():
        messages[name] = {
            "name": f"labelwatch.{name}",
            "contentType": "application/json",
            "payload": _make_file_ref(name),
            "bindings": _build_key_binding(f"JSON array {key}", None),
        }
    messages["dead-letter.v1"] = {
        "name": "labelwatch.dead-letter.v1",
        "title": "Dead letter",
        "contentType": "application/octet-stream",
        "headers": _make_file_ref("dead-letter-headers.v1"),
        "payload": {"description": "The original bytes"},
        "bindings": _build_key_binding("The original key", None),
    }
    messages["waiting.v1"] = {
        "name": "labelwatch.waiting.v1",
        "title": "Waiting sentence",
        "contentType": "application/json",
        "headers": _make_file_ref("waiting-headers.v1"),
        "payload": _make_file_ref("sentence.v1"),
        "bindings": _build_key_binding("`dataset/id/partition-offset` of the input", "news/4711/3-1042"),
    }
    return messages


def _make_file_ref(name: str) -> dict[str, str]:
    return {"$ref": f"./{name}.schema.json"}


def _build_key_binding(text: str, example: str | None) -> dict[str, Any]:
    key: dict[str, Any] = {"type": "string", "description": text}
    if example is not None:
        key["examples"] = [example]
    return {"kafka": {"key": key, "bindingVersion": BINDING}}
