from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from service.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Sequence


def render(own: Telemetry, others: Sequence[Telemetry]) -> dict[str, float]:
    own.add_processes(lambda: [other.dump_metrics() for other in others])
    lines = own.render_exposition()[0].decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_counters_histograms_and_the_queue_are_added_up() -> None:
    own, first, second = Telemetry(), Telemetry(), Telemetry()
    for telemetry, waiting in ((own, 1), (first, 10), (second, 100)):
        telemetry.observe_http_request(route="/v1/score", method="POST", status=200, seconds=0.002)
        telemetry.observe_model_run(2, 10, 12)
        telemetry.watch_queue(partial(int, waiting))
    second.observe_http_request(route="/v1/score", method="POST", status=429, seconds=3)
    found = render(own, [first, second])
    assert found['labelwatch_http_requests_total{method="POST",route="/v1/score",status="2xx"}'] == 3
    assert found['labelwatch_http_requests_total{method="POST",route="/v1/score",status="4xx"}'] == 1
    assert found['labelwatch_http_request_seconds_bucket{le="0.0025",route="/v1/score"}'] == 3
    assert found['labelwatch_http_request_seconds_bucket{le="+Inf",route="/v1/score"}'] == 4
    assert found["labelwatch_model_tokens_total"] == 30
    assert found["labelwatch_http_queue_sentences"] == 111


def test_everything_else_is_that_of_the_process_itself() -> None:
    own, other = Telemetry(), Telemetry()
    own.add_model("mine", "f00d")
    other.add_model("theirs", "beef")
    found = render(own, [other])
    assert found['labelwatch_model_info{fingerprint="f00d",name="mine"}'] == 1
    assert not [series for series in found if "theirs" in series]
    assert found["process_start_time_seconds"] > 0


def test_each_exposition_adds_the_newest_values_once() -> None:
    own, other = Telemetry(), Telemetry()
    series = 'labelwatch_overload_total{reason="queue_full"}'
    other.count_overload()
    assert render(own, [other])[series] == 1
    other.count_overload()
    assert render(own, [other])[series] == 2
