"""Records of the waiting topic: sentences of datasets that no model fits, as they arrived in the input.

Value and headers are those of the input record. Headers that begin with `labelwatch.waiting.` say where it was, so that
it can be judged later as if it had just been read there. The partition is that of the input, so the worker that
owns it is the only writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import StateError
from service.log.codec import get_header
from service.log.protocol import Output, Record, StoredRecord
from service.log.read import read_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.contracts import LabelledSentence
    from service.log.protocol import Log
    from service.log.topics import Topics

HEADER_PREFIX = "labelwatch.waiting."
_TOPIC, _OFFSET, _TIMESTAMP, _KEY = (f"{HEADER_PREFIX}{name}" for name in ("topic", "offset", "timestamp_ms", "key"))


def build_waiting_message(topic: str, record: Record, sentence: LabelledSentence) -> Output:
    """The message that stores a record of the input.

    The key ends with the position, so that compaction never removes a record: each of them is judged once, whatever its
    revision, as in the input.
    """
    added = [
        (_TOPIC, record.topic.encode()),
        (_OFFSET, str(record.offset).encode()),
        (_TIMESTAMP, str(record.timestamp_ms).encode()),
    ]
    if record.key is not None:
        added.append((_KEY, record.key))
    key = f"{sentence.dataset}/{sentence.id}/{record.partition}-{record.offset}".encode()
    return Output(topic, key, record.value, (*record.headers, *added), partition=record.partition)


def get_waiting_dataset(record: Record) -> str:
    """The dataset of a record of the waiting topic."""
    return (record.key or b"").partition(b"/")[0].decode(errors="replace")


def read_stored_record(record: Record) -> StoredRecord:
    """The record of the input, from its record in the waiting topic."""
    own = record.headers[::-1]  # ours come last: the producer may have sent headers with the same names
    source, offset, timestamp = (get_header(own, name) for name in (_TOPIC, _OFFSET, _TIMESTAMP))
    if source is None or offset is None or timestamp is None or not (offset + timestamp).isdecimal():
        key = (record.key or b"").decode(errors="replace")
        raise StateError(
            f"the record at offset {record.offset} of {record.topic} (key {key}) does not say where it was in the input: "
            f"delete it by writing its key without a value to {record.topic}"
        )
    added = 4 if record.headers[-1][0] == _KEY else 3
    key_header = next((value for name, value in record.headers[-added:] if name == _KEY), None)
    restored = Record(
        source, record.partition, int(offset), key_header, record.value, record.headers[:-added], int(timestamp)
    )
    return StoredRecord(record.key or b"", get_waiting_dataset(record), restored)


def build_released_message(topic: str, stored: StoredRecord) -> Output:
    """The tombstone of a stored record that was judged."""
    return Output(topic, stored.key, None, partition=stored.record.partition)


def read_waiting_records(
    log: Log, topics: Topics, dataset: str, *, next_offsets: Mapping[int, int]
) -> Iterator[Record]:
    """The stored records of a dataset as they were in the input; those of one partition in the order of offsets.

    `next_offsets`: by partition, the offset of the input before which stored records are released already.
    """
    for record in read_topic(log, topics.waiting):
        if record.value is None or get_waiting_dataset(record) != dataset:
            continue
        stored = read_stored_record(record).record
        if stored.offset >= next_offsets.get(stored.partition, 0):
            yield stored
