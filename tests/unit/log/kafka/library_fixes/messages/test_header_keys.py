from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from service.log.kafka.library_fixes.messages.header_keys import NonUtf8HeaderKey
from service.log.kafka.library_fixes.patches import patch_library

NON_UTF8_KEY = b"k\xff\xfe"


def make_batch(*headers: tuple[str, bytes | None]) -> DefaultRecordBatch:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000,
    )
    for offset in range(2):
        builder.append(offset, 1_000, b"key", b"value", list(headers))
    return DefaultRecordBatch(builder.build())


def test_a_header_key_that_is_not_utf8_is_read_and_written_unchanged() -> None:
    patch_library()
    records = list(make_batch(("plain", b"1"), (NonUtf8HeaderKey.from_bytes(NON_UTF8_KEY), b"2"), ("nothing", None)))
    assert [record.offset for record in records] == [0, 1]
    for record in records:
        assert [key.encode() for key, _ in record.headers] == [b"plain", NON_UTF8_KEY, b"nothing"]
        assert [value for _, value in record.headers] == [b"1", b"2", None]
        assert record.headers[1][0] == NON_UTF8_KEY.decode(errors="replace")
        copies = list(make_batch(*record.headers))
        assert [key.encode() for key, _ in copies[0].headers] == [b"plain", NON_UTF8_KEY, b"nothing"]
