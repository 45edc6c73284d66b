"""Reads and writes header keys that are not UTF-8.

Bug: `DefaultRecordBatch._read_msg` decodes header keys as strict UTF-8.
Symptom: one record with another key makes the consumer fetch the same batch forever.
Remove it when: `test_a_header_key_that_is_not_utf8_is_read_and_written_unchanged` passes without it. The library must
then offer the key as bytes, because a dead letter repeats it byte for byte.
"""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatch


class NonUtf8HeaderKey(str):
    """A header key that is not UTF-8. It shows replacement characters and encodes to its original bytes."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def from_bytes(cls, raw: bytes) -> NonUtf8HeaderKey:
        key = cls(raw.decode(errors="replace"))
        key.raw = raw
        return key

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:  # noqa: ARG002 - the signature of str
        return self.raw


class _LenientBuffer(bytearray):
    """A buffer whose slices decode any bytes."""

    def __getitem__(self, index: slice | int) -> _LenientBuffer | int:  # type: ignore[override]  # a slice stays lenient
        item = super().__getitem__(index)
        return item if isinstance(item, int) else _LenientBuffer(item)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return super().decode(encoding, errors)
        except UnicodeDecodeError:
            return NonUtf8HeaderKey.from_bytes(bytes(self))


def accept_any_header_key() -> None:
    original = DefaultRecordBatch._read_msg  # noqa: SLF001 - the only place where a header key is decoded

    def read_msg(self: DefaultRecordBatch) -> object:
        try:
            return original(self)
        except UnicodeDecodeError:
            buffer, self._buffer = self._buffer, _LenientBuffer(self._buffer)
            try:
                return original(self)
            finally:
                self._buffer = buffer

    DefaultRecordBatch._read_msg = read_msg  # noqa: SLF001
