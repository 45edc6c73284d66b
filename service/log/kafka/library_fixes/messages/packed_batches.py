"""Does not read a record batch that unpacks to too much, that hides how much, or that is damaged.

Gap: the library unpacks a whole batch in memory, whatever its size. A batch of 1 MB, which any topic accepts, can hold 1 GB.
Symptom: one message from any producer ends every worker that reads its partition, again after each restart.
Remove it when: the library has a limit of its own, and `test_a_batch_that_unpacks_to_too_much_becomes_one_record` passes
without the fix. The batch must not stop its partition then.

In place of its records such a batch has a single one with the offset of the last: it says what was left out, and can't be
read as any message of ours. So a worker makes it a dead letter and continues after the batch, and the log names it. The
batch itself stays in its topic. If the damage begins after some records, these are read, and only the others are replaced.

A batch with a wrong checksum is none of these: the client raises an error before it gets here. Another replica may have the
batch intact, so it is not skipped.
"""

from __future__ import annotations

import gzip
import io
import logging
import struct
from typing import TYPE_CHECKING, BinaryIO, Final

from kafka import codec
from kafka.errors import CorruptRecordError, KafkaError
from kafka.record import default_records, legacy_records
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import encode_varint

from service.log.codec import UNREAD_BATCH_HEADER
from service.log.kafka.client_errors import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Payload = bytes | bytearray | memoryview
    Unpack = Callable[[Payload], Payload]

logger = logging.getLogger(__name__)

# Input batches have at most 1 MiB, and text packs to a thirtieth at best. Batches of ours unpack to 8 MiB at most.
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
PART_BYTES: Final = 1024 * 1024
# Smaller batches are left to the library, which is faster: these formats can't pack more into them.
MAX_GZIP_RATIO: Final = 1_100
MAX_LZ4_RATIO: Final = 256
XERIAL_MAGIC: Final = b"\x82SNAPPY\0"  # snappy in blocks, each after its length
XERIAL_HEADER_BYTES: Final = 16
LENGTH: Final = struct.Struct("!i")


class UnreadBatchError(ValueError):
    """A compressed batch is not unpacked. The text says why, and what to do."""


class BatchTooLargeError(UnreadBatchError):
    """A compressed batch unpacks to more than MAX_UNPACKED_BYTES."""

    def __init__(self) -> None:
        super().__init__(f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes, and is not read: send smaller batches")


class DamagedBatchError(UnreadBatchError):
    """A batch can't be unpacked, or what was unpacked is no list of records."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"is damaged ({problem}), and is not read: send its messages again")


def limit_unpacked_batches() -> None:
    unpackers: dict[str, Unpack] = {
        "gzip_decode": _limit_stream(_open_gzip, codec.gzip_decode, MAX_GZIP_RATIO),
        "snappy_decode": _limit_snappy(codec.snappy_decode),
    }
    if codec.lz4 is not None:
        unpackers["lz4_decode"] = _limit_stream(codec.lz4.LZ4FrameFile, codec.lz4_decode, MAX_LZ4_RATIO)
    if codec.zstd is not None:
        unpackers["zstd_decode"] = _limit_stream(_open_zstd)
    for module in (default_records, legacy_records):
        for name in unpackers.keys() & vars(module).keys():
            setattr(module, name, unpackers[name])
    original = DefaultRecordBatch._maybe_uncompress  # noqa: SLF001 - there is no public way

    def unpack(batch: DefaultRecordBatch) -> None:
        try:
            original(batch)
        except UnreadBatchError as error:
            _replace_records(batch, str(error))
        except (KafkaError, MemoryError):  # a codec that is not installed, and no fault of the batch
            raise
        except Exception as error:  # noqa: BLE001 - each codec has errors of its own, which would end the process
            _replace_records(batch, str(DamagedBatchError(describe_error(error))))

    DefaultRecordBatch._maybe_uncompress = unpack  # noqa: SLF001
    original_next = DefaultRecordBatch.__next__

    def read_next(batch: DefaultRecordBatch) -> object:
        """Some codecs don't notice damage: zstd returns what there is of a frame that was cut off."""
        try:
            record = original_next(batch)
        except CorruptRecordError as error:
            if batch.is_control_batch:
                raise
            if batch._next_record_index >= batch._num_records:  # noqa: SLF001
                # Every record that it announces was read.
                logger.warning("the batch at offsets %d to %d: %s", batch.base_offset, batch.last_offset, error)
                raise StopIteration from error
            problem = describe_error(error)
        else:
            if batch._pos <= len(batch._buffer) or batch.is_control_batch:  # noqa: SLF001
                return record
            # The library takes what there is of a header's value, which is the last part of a record.
            batch._next_record_index -= 1  # noqa: SLF001
            problem = "the last header is cut off"
        _replace_records(batch, str(DamagedBatchError(problem)))
        return original_next(batch)

    DefaultRecordBatch.__next__ = DefaultRecordBatch.next = read_next


def _open_gzip(file: io.BytesIO) -> BinaryIO:
    return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]  # it is one in all but name


def _open_zstd(file: io.BytesIO) -> BinaryIO:
    reader: BinaryIO = codec.zstd.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return reader


def _limit_stream(
    open_packed: Callable[[io.BytesIO], BinaryIO], unpack: Unpack | None = None, max_ratio: int = 0
) -> Unpack:
    def unpack_limited(payload: Payload) -> Payload:
        if unpack is not None and len(payload) * max_ratio <= MAX_UNPACKED_BYTES:
            return unpack(payload)
        data = bytearray()
        with open_packed(io.BytesIO(payload)) as file:
            while part := file.read(PART_BYTES):
                data += part
                if len(data) > MAX_UNPACKED_BYTES:
                    raise BatchTooLargeError
        return data

    return unpack_limited


def _limit_snappy(unpack: Unpack) -> Unpack:
    """A block begins with its unpacked size, and can't be unpacked if it has another."""

    def unpack_limited(payload: Payload) -> Payload:
        if sum(_read_size(block) for block in _split_blocks(payload)) > MAX_UNPACKED_BYTES:
            raise BatchTooLargeError
        return unpack(payload)

    return unpack_limited


def _split_blocks(payload: Payload) -> Iterator[memoryview]:
    view = memoryview(payload)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield view
        return
    start = XERIAL_HEADER_BYTES
    while start + LENGTH.size <= len(view):
        (length,) = LENGTH.unpack_from(view, start)
        if length < 0:  # the library would count from the end, and unpack what is not counted here
            raise DamagedBatchError(f"a block of {length} bytes")
        start += LENGTH.size
        yield view[start : start + length]
        start += length


def _read_size(block: memoryview) -> int:
    """Seven bits per byte, the lowest first; the last byte has no highest bit."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    return size


def _replace_records(batch: DefaultRecordBatch, problem: str) -> None:
    """Replaces the records that were not returned yet by one, which says why.

    It has the offset of the last, so that a reader that has read a part of the batch before gets it too.
    """
    returned = batch._next_record_index  # noqa: SLF001 - as above
    count, first, last = batch.records_count - returned, _find_next_offset(batch), batch.last_offset
    offsets = f"offset {last}" if first == last else f"offsets {first} to {last}"
    records = f"the {count:,} {'record' if count == 1 else 'records'} at {offsets}"
    kind = "compressed batch" if batch.compression_type else "batch"
    part = f"the rest of the {kind}, {records}," if returned else f"the {kind} with {records}"
    reason = f"{part} {problem}".encode()
    logger.error("%s", reason.decode())
    name = UNREAD_BATCH_HEADER.encode()
    body = bytearray(b"\0")  # attributes
    for number, data in ((0, b""), (batch.last_offset_delta, b""), (-1, b""), (len(reason), reason), (1, b"")):
        encode_varint(number, body.append)  # time, offset, no key, the value, one header
        body += data
    for data in (name, reason):
        encode_varint(len(data), body.append)
        body += data
    record = bytearray()
    encode_varint(len(body), record.append)
    batch._buffer, batch._pos = record + body, 0  # noqa: SLF001 - as above
    batch._num_records, batch._next_record_index, batch._decompressed = 1, 0, True  # noqa: SLF001


def _find_next_offset(batch: DefaultRecordBatch) -> int:
    """The offset after the last record that was returned. A batch has no place to note it, so its records are read again."""
    offset = int(batch.base_offset)
    batch._pos = 0 if batch.compression_type else batch.HEADER_STRUCT.size  # noqa: SLF001 - as above
    for _ in range(batch._next_record_index):  # noqa: SLF001
        offset = batch._read_msg().offset + 1  # noqa: SLF001
    return offset
