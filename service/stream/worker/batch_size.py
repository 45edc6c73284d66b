"""How large the next batch may be.

The time that a sentence takes is not known in advance: batches double while they are fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.log.protocol import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from service.log.protocol import RecordBatch

INITIAL_BATCH_RECORDS: Final = 128
INITIAL_BATCH_BYTES: Final = 128 * 1024
# A batch must end well within the log's poll interval, or its partitions are assigned to another worker.
TARGET_BATCH_S: Final = 10.0


class BatchSize:
    """The limits of a poll, in records and in bytes."""

    def __init__(self, max_records: int) -> None:
        self._max_records = max_records
        self.records = min(max_records, INITIAL_BATCH_RECORDS)
        self.bytes = INITIAL_BATCH_BYTES

    def adapt(self, batch: RecordBatch, seconds: float) -> None:
        """`seconds`: how long the batch took."""
        if seconds > TARGET_BATCH_S:
            self.shrink(batch, TARGET_BATCH_S / seconds)
        elif seconds < TARGET_BATCH_S / 4:
            self.records = min(self._max_records, self.records * 2)
            self.bytes = min(MAX_BATCH_BYTES, self.bytes * 2)

    def shrink(self, batch: RecordBatch, share: float) -> None:
        """Starts from the actual size of the batch, whichever limit ended it."""
        self.records = max(1, int(len(batch) * share))
        self.bytes = max(1, int(batch.size_bytes * share))
