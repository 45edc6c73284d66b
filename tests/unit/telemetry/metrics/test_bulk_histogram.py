from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from service.telemetry.metrics.bulk_histogram import MAX_PENDING, BulkHistogram

BUCKETS = (0.001, 0.01, 0.5, 1, 30)
numbers = st.one_of(st.sampled_from(BUCKETS), st.floats(0, 100))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", 'b"\n']), st.lists(numbers, max_size=8)), max_size=6))
def test_it_exposes_what_the_librarys_own_histogram_exposes(batches: list[tuple[str, list[float]]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = BulkHistogram("seconds", "Some time", BUCKETS, ["stage"], registry=ours)
    histogram = Histogram("seconds", "Some time", ["stage"], buckets=BUCKETS, registry=theirs)
    for label, values in batches:
        tally.observe_all(values[1:], label)
        for value in values[:1]:
            tally.observe(value, label)
        for value in values:
            histogram.labels(label).observe(value)
        histogram.labels(label)

    def lines(registry: CollectorRegistry) -> list[bytes]:
        # sums of floats depend on their order
        lines = generate_latest(registry).splitlines()
        return [line for line in lines if b"_sum" not in line and b"_created" not in line]

    assert lines(ours) == lines(theirs)
    for label, _ in batches:
        expected = sum(value for batch_label, values in batches if batch_label == label for value in values)
        assert ours.get_sample_value("seconds_sum", {"stage": label}) == pytest.approx(expected)


def test_negative_values_do_not_make_the_sum_fall() -> None:
    registry = CollectorRegistry()
    BulkHistogram("scores", "Some scores", BUCKETS, registry=registry).observe_all([-3.0, 0.25])
    assert registry.get_sample_value("scores_sum") == 0.25
    assert registry.get_sample_value("scores_bucket", {"le": "0.001"}) == 1


def test_a_wrong_number_of_labels_is_an_error() -> None:
    with pytest.raises(ValueError, match="give a value for each of the labels"):
        BulkHistogram("scores", "Some scores", BUCKETS, registry=CollectorRegistry()).init_labels("a")


def test_single_values_count_at_the_latest_when_the_histogram_is_read() -> None:
    registry = CollectorRegistry()
    histogram = BulkHistogram("seconds", "Some time", BUCKETS, ["stage"], registry=registry)
    for count in range(1, 2 * MAX_PENDING + 10):
        histogram.observe(0.25, "a")
        if count % 100 == 0:
            assert registry.get_sample_value("seconds_count", {"stage": "a"}) == count
    assert registry.get_sample_value("seconds_sum", {"stage": "a"}) == pytest.approx(0.25 * count)
    with pytest.raises(ValueError, match="give a value for each"):
        histogram.observe(0.25)
