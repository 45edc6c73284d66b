"""A compressed batch that unpacks to too much is left out by name, with every codec."""

from __future__ import annotations

import random
import struct
from functools import partial
from typing import TYPE_CHECKING

import pytest
from kafka import TopicPartition
from kafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from kafka.consumer.fetcher import Fetcher
from kafka.errors import UnsupportedCodecError
from kafka.record import default_records
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from service.log.codec import UNREAD_BATCH_HEADER
from service.log.kafka.library_fixes.messages import packed_batches
from service.log.kafka.library_fixes.messages.packed_batches import MAX_UNPACKED_BYTES, BatchTooLargeError
from service.log.kafka.library_fixes.patches import patch_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka.consumer.fetcher import ConsumerRecord

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def _patched() -> None:
    patch_library()


def build_batch(codec: int, first_offset: int, *values: bytes) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for offset, value in enumerate(values):
        builder.append(offset, 1_000, b"key", value, [("name", b"header")])
    batch = bytearray(builder.build())
    batch[:8] = first_offset.to_bytes(8, "big")  # as the broker does
    return bytes(batch)


def read(*batches: bytes, position: int = 0) -> list[ConsumerRecord]:
    """As a consumer reads what it has fetched."""
    records = Fetcher.PartitionRecords(position, TopicPartition("t", 0), MemoryRecords(b"".join(batches)))
    taken: list[ConsumerRecord] = records.take()
    assert records.next_fetch_offset == 8
    return taken


@pytest.mark.parametrize("position", [0, 3, 6])
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_unpacks_to_too_much_becomes_one_record(
    codec: str, position: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The batches before and after it are read, wherever reading begins."""
    monkeypatch.setattr(packed_batches, "MAX_UNPACKED_BYTES", 3 * MIB)
    bomb = build_batch(CODECS[codec], 2, *[b" " * MIB] * 5)
    assert len(bomb) < MIB
    records = read(build_batch(CODECS[codec], 0, b"a", b"b"), bomb, build_batch(0, 7, b"c"), position=position)
    expected = [(0, b"a"), (1, b"b"), (6, None), (7, b"c")]
    assert [record.offset for record in records] == [offset for offset, _ in expected if offset >= position]
    for record in records:
        reason = dict(record.headers).get(UNREAD_BATCH_HEADER)
        if record.offset != 6:
            assert (record.value, reason) == (dict(expected)[record.offset], None)
            continue
        assert reason == record.value
        assert reason.startswith(
            b"the compressed batch with the 5 records at offsets 2 to 6 unpacks to more than 3,145,728"
        )
        assert record.key is None
        assert reason.decode() in caplog.text


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_within_the_limit_is_unpacked_as_before(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [bytes([number]) * 100_000 for number in range(8)]
    for limit in (MAX_UNPACKED_BYTES, MIB):  # for small batches the library unpacks, where it is faster
        monkeypatch.setattr(packed_batches, "MAX_UNPACKED_BYTES", limit)
        records = read(build_batch(CODECS[codec], 0, *values))
        assert [(record.key, record.value, record.headers) for record in records] == [
            (b"key", value, [("name", b"header")]) for value in values
        ]


def test_snappy_without_blocks_is_limited_too() -> None:
    packed = snappy_encode(b" " * (MAX_UNPACKED_BYTES + 1), xerial_compatible=False)
    with pytest.raises(BatchTooLargeError):
        default_records.snappy_decode(packed)


def hide_block(data: bytes) -> bytes:
    """Data in a block with a negative length, which the library counts from the end of the payload."""
    header, end = snappy_encode(b""), bytes(4)
    length = struct.pack("!i", -2 * len(end))
    return b"".join((header, length, snappy_encode(data, xerial_compatible=False), end))


def test_a_block_of_negative_length_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The library would unpack what the limit does not count, and fail only then: the partition would stand still."""
    with monkeypatch.context() as patched:
        patched.setattr(default_records, "snappy_encode", hide_block)
        hidden = build_batch(CODECS["snappy"], 2, *[b" " * MIB] * 5)
    records = read(build_batch(0, 0, b"a", b"b"), hidden, build_batch(0, 7, b"c"))
    assert [(record.offset, record.value) for record in records if record.offset != 6] == [
        (0, b"a"),
        (1, b"b"),
        (7, b"c"),
    ]
    (damaged,) = (record for record in records if record.offset == 6)
    assert dict(damaged.headers) == {UNREAD_BATCH_HEADER: damaged.value}
    assert damaged.value.startswith(b"the compressed batch with the 5 records at offsets 2 to 6 is damaged")
    assert damaged.value.decode() in caplog.text


def cut_off(encode: Callable[[bytes], bytes], data: bytes) -> bytes:
    return encode(data)[:-20]


def encode_no_records(encode: Callable[[bytes], bytes], _: bytes) -> bytes:
    return encode(b"\xff" * 99)


ENCODERS = {"gzip": gzip_encode, "snappy": snappy_encode, "lz4": lz4_encode, "zstd": zstd_encode}
DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "trailing bytes": ("snappy", lambda data: snappy_encode(data) + b"\0\0"),
    "an empty block": ("snappy", lambda data: snappy_encode(data) + struct.pack("!i", 0)),
    "a block beyond the end": ("snappy", lambda data: snappy_encode(data) + struct.pack("!i", 1_000) + b"x"),
    "no snappy": ("snappy", lambda _: b"\x05no snappy"),
    **{f"{name}, cut off": (name, partial(cut_off, encode)) for name, encode in ENCODERS.items()},
    **{f"{name} of no records": (name, partial(encode_no_records, encode)) for name, encode in ENCODERS.items()},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_batch_becomes_one_record(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checksum is right. The errors of the codec are none of the client's, and would end the process.

    What the codec does not notice, the client does when it reads the records: it would read the batch again and again.
    """
    codec, encode = DAMAGES[damage]
    with monkeypatch.context() as patched:
        patched.setattr(default_records, f"{codec}_encode", encode)
        values = [random.Random(number).randbytes(40) + b"abc" * 100 for number in range(5)]
        damaged = build_batch(CODECS[codec], 2, *values)
    records = read(build_batch(0, 0, b"a", b"b"), damaged, build_batch(0, 7, b"c"))
    assert [record.offset for record in records] == [0, 1, 6, 7]
    assert records[-2].value.startswith(b"the compressed batch with the 5 records at offsets 2 to 6 is damaged (")


def build_damaged_batch(
    codec: str, encode: Callable[[bytes], bytes], values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> bytes:
    with monkeypatch.context() as patched:
        patched.setattr(default_records, f"{codec}_encode", encode)
        return build_batch(CODECS[codec], 0, *values)


LARGE_VALUES = [random.Random(number).randbytes(30_000) + b"a" * 30_000 for number in range(8)]


@pytest.mark.parametrize("position", [0, 4, 7])
def test_of_a_batch_that_is_cut_off_only_the_records_that_were_not_returned_are_named(
    position: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sends the others again teaches them twice. The text is the same wherever reading begins."""
    damaged = build_damaged_batch("zstd", partial(cut_off, zstd_encode), LARGE_VALUES, monkeypatch)
    records = read(damaged, position=position)
    assert [record.offset for record in records] == [offset for offset in (0, 1, 2, 3, 4, 5, 7) if offset >= position]
    assert [record.value for record in records[:-1]] == LARGE_VALUES[position:6]
    reason = records[-1].value
    assert dict(records[-1].headers) == {UNREAD_BATCH_HEADER: reason}
    assert reason == (
        b"the rest of the compressed batch, the 2 records at offsets 6 to 7, is damaged (CorruptRecordError: [Error 2] "
        b"CorruptRecordError: Found invalid record structure: IndexError('bytearray index out of range')), and is not "
        b"read: send its messages again"
    )
    assert reason.decode() in caplog.text


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("limit", [1024 * MIB, MIB])  # the library unpacks, or the fix
def test_of_a_batch_that_is_cut_off_and_whose_codec_notices_it_all_records_are_named(
    codec: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_batches, "MAX_UNPACKED_BYTES", limit)
    (record,) = read(build_damaged_batch(codec, partial(cut_off, ENCODERS[codec]), LARGE_VALUES, monkeypatch))
    assert record.offset == 7
    assert record.value.startswith(b"the compressed batch with the 8 records at offsets 0 to 7 is damaged (")


def cut_batch(size: int, *values: bytes) -> bytes:
    """A batch that is not packed, without its last bytes."""
    batch = bytearray(build_batch(0, 0, *values)[:-size])
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("size", [3, 20])  # within the last header, which the library returns as it is, and before it
def test_of_a_batch_that_is_not_packed_too_only_the_records_that_were_not_returned_are_named(size: int) -> None:
    *records, damaged = DefaultRecordBatch(cut_batch(size, *[b"%d" % number for number in range(8)]))
    assert [record.value for record in records] == [b"%d" % number for number in range(7)]
    assert damaged.offset == 7
    assert damaged.value.startswith(b"the rest of the batch, the 1 record at offset 7, is damaged (")


def test_bytes_after_the_last_record_do_not_stop_a_partition(caplog: pytest.LogCaptureFixture) -> None:
    batch = DefaultRecordBatch(build_batch(0, 0, b"a", b"b") + b"\0")
    assert [record.value for record in batch] == [b"a", b"b"]
    assert "1 unconsumed bytes" in caplog.text


def test_a_codec_that_is_not_installed_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages are not lost: an installation with the codec reads them."""
    packed = build_batch(CODECS["gzip"], 0, *[b"a" * 100] * 8)
    monkeypatch.setattr("kafka.codec.has_gzip", lambda: False)
    with pytest.raises(UnsupportedCodecError):
        read(packed)


def test_the_limit_holds_for_the_smallest_batch_above_it() -> None:
    batch = DefaultRecordBatch(build_batch(CODECS["gzip"], 0, b" " * MAX_UNPACKED_BYTES))
    assert batch.size_in_bytes < 100_000
    (record,) = batch
    assert record.value.startswith(b"the compressed batch")
