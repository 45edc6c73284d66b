"""Services beside labelwatch: their requests and the figures made of what was measured. The services themselves need torch."""

from __future__ import annotations

import json

import pytest

from service.contracts import LabelledSentence
from tests.bench.page.figures import to_figure
from tests.bench.services.port import RunningService, build_inference_body, build_plain_body
from tests.bench.services.suite import make_figures

SENTENCE = LabelledSentence(tokens=("Oslo", "wins"), labels=("B-LOC", "O"))


def test_a_request_has_the_length_of_its_body() -> None:
    for build in (build_plain_body, build_inference_body):
        head, _, body = RunningService("x", 80, "/score", build).build_request(SENTENCE).partition(b"\r\n\r\n")
        assert head.startswith(b"POST /score HTTP/1.1\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert json.loads(body)


def test_an_inference_request_names_its_inputs() -> None:
    tokens, labels = build_inference_body(SENTENCE)["inputs"]
    assert tokens == {"name": "tokens", "shape": [2], "datatype": "BYTES", "data": ["Oslo", "wins"]}
    assert labels["data"] == ["B-LOC", "O"]


def make_load(seconds: float) -> dict[str, object]:
    return {"seconds": seconds, "latencies": [seconds / 10] * 10}


def test_every_other_service_is_compared_in_each_round() -> None:
    rounds = {
        32: {"labelwatch": [make_load(1.0), make_load(2.0)], "MLServer": [make_load(3.0), make_load(8.0)]},
        1: {"labelwatch": [make_load(1.0)], "MLServer": [make_load(2.0)]},
    }
    many, one = make_figures(rounds)
    assert (many["name"], one["name"]) == ("rest_32_clients_vs_mlserver", "rest_1_client_vs_mlserver")
    assert many["detail"]["ratios"] == pytest.approx([3.0, 4.0])
    assert many["ratio"] == pytest.approx(3.5)
    machine = {"cpu": "x", "cores": 2}
    rates = to_figure({**many, "suite": "services", "machine": machine}).rates
    assert rates["labelwatch, 32 clients"].most == pytest.approx(10.0)
    assert rates["MLServer, 32 clients"].least == pytest.approx(1.25)
