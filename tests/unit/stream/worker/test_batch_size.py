from __future__ import annotations

from typing import Final

from service.log.protocol import MAX_BATCH_BYTES, Record, RecordBatch
from service.stream.worker.batch_size import INITIAL_BATCH_BYTES, INITIAL_BATCH_RECORDS, TARGET_BATCH_S, BatchSize

VALUE: Final = b"x" * 100


def make_batch(records: int) -> RecordBatch:
    return RecordBatch({0: [Record("sentences", 0, offset, None, VALUE) for offset in range(records)]})


def test_batches_double_while_they_are_fast_up_to_their_limits() -> None:
    size, batch = BatchSize(4 * INITIAL_BATCH_RECORDS + 1), make_batch(1)
    assert (size.records, size.bytes) == (INITIAL_BATCH_RECORDS, INITIAL_BATCH_BYTES)
    size.adapt(batch, TARGET_BATCH_S / 5)
    assert (size.records, size.bytes) == (2 * INITIAL_BATCH_RECORDS, 2 * INITIAL_BATCH_BYTES)
    for _ in range(20):
        size.adapt(batch, 0.0)
    assert (size.records, size.bytes) == (4 * INITIAL_BATCH_RECORDS + 1, MAX_BATCH_BYTES)


def test_the_first_batch_is_not_larger_than_the_setting() -> None:
    assert BatchSize(16).records == 16


def test_a_batch_near_its_target_leaves_the_size_as_it_is() -> None:
    size = BatchSize(1000)
    for seconds in (TARGET_BATCH_S / 4, TARGET_BATCH_S):
        size.adapt(make_batch(10), seconds)
    assert (size.records, size.bytes) == (INITIAL_BATCH_RECORDS, INITIAL_BATCH_BYTES)


def test_a_slow_batch_shrinks_the_next_one_by_how_much_too_slow_it_was() -> None:
    size = BatchSize(1000)
    size.adapt(make_batch(40), 4 * TARGET_BATCH_S)
    assert (size.records, size.bytes) == (10, 10 * len(VALUE))


def test_a_batch_always_has_room_for_one_record() -> None:
    size = BatchSize(1000)
    size.shrink(make_batch(1), 0.001)
    assert (size.records, size.bytes) == (1, 1)
