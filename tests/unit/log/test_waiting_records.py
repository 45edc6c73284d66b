from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.contracts import LabelledSentence
from service.errors import StateError
from service.log.protocol import Output, Record, StoredRecord
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.log.waiting_records import (
    HEADER_PREFIX,
    build_waiting_message,
    get_waiting_dataset,
    read_stored_record,
    read_waiting_records,
)

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()


def build_record(offset: int, *, key: bytes | None = b"k", headers: tuple[tuple[str, bytes], ...] = ()) -> Record:
    return Record(TOPICS.sentences, 3, offset, key, b'{"tokens": ["a"]}', headers, 1_700_000_000_000 + offset)


def build_sentence(dataset: str = "med") -> LabelledSentence:
    return LabelledSentence(tokens=("a",), labels=("B-DRUG",), dataset=dataset, id="doc/7")


def to_stored(output: Output) -> Record:
    return Record(output.topic, output.partition or 0, 0, output.key, output.value, output.headers, 1)


@pytest.mark.parametrize("key", [None, b"", b"\xff"])
@pytest.mark.parametrize("headers", [(), (("mine", b"\xff"), (f"{HEADER_PREFIX}key", b"not ours"))])
def test_an_input_record_is_restored_byte_for_byte(key: bytes | None, headers: tuple[tuple[str, bytes], ...]) -> None:
    record = build_record(7, key=key, headers=headers)
    output = build_waiting_message(TOPICS.waiting, record, build_sentence())
    assert (output.partition, output.key) == (3, b"med/doc/7/3-7")
    stored = to_stored(output)
    assert get_waiting_dataset(stored) == "med"
    assert read_stored_record(stored) == StoredRecord(b"med/doc/7/3-7", "med", record)


def test_a_record_that_labelwatch_did_not_write_is_named() -> None:
    with pytest.raises(StateError, match=r"offset 0 of labelwatch.waiting \(key med/1\) does not say where"):
        read_stored_record(Record(TOPICS.waiting, 0, 0, b"med/1", b"{}", (("mine", b"1"),)))
    with pytest.raises(StateError, match="delete it by writing its key"):
        read_stored_record(Record(TOPICS.waiting, 0, 0, b"med/1", b"{}"))


def test_stored_records_of_a_dataset_are_read_in_order_without_released_ones(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    records = [Record(TOPICS.sentences, 0, offset, None, b"{}", (), offset) for offset in range(6)]
    outputs = [
        build_waiting_message(TOPICS.waiting, record, build_sentence("other" if record.offset == 4 else "med"))
        for record in records
    ]
    log.append([*outputs, Output(TOPICS.waiting, outputs[5].key, None)])
    found = read_waiting_records(log, TOPICS, "med", next_offsets={0: 2})
    assert list(found) == [records[2], records[3]]
    log.close()
