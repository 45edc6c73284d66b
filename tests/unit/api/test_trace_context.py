"""The trace context of a request reaches the assessment of each of its sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.contracts import BelowPolicy, DatasetSettings
from service.log.read import read_topic
from service.log.trace_headers import select_trace_headers
from tests.support.api_harness import TOPICS
from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=1"}


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson"])
def test_from_request_to_assessment(harness: ApiHarness, media_type: str) -> None:
    harness.worker._datasets.put(DatasetSettings(name="news", flag_policy=BelowPolicy(kind="below", cut=2.0)))
    (sentence,) = make_sentences(1, dataset="news")
    response = harness.client.post("/v1/sentences", json=sentence, headers={**TRACE, "Content-Type": media_type})
    assert response.status_code == 202, response.text
    harness.send()
    expected = tuple((name, value.encode()) for name, value in TRACE.items())
    for topic in (TOPICS.sentences, TOPICS.review):
        (record,) = read_topic(harness.log, topic)
        assert select_trace_headers(record.headers) == expected
