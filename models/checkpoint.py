"""Reads the tensors of a TensorFlow checkpoint (`variables.index`, `variables.data-…`) with numpy alone.

The index is a sorted table of blocks, as in LevelDB. It maps each variable's name to its type, shape and place in a data file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOOTER_BYTES = 48
MAGIC = 0xDB4775248B80FB57
UNCOMPRESSED = 0
FLOAT32 = 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a protobuf field is written


@dataclass(frozen=True)
class TensorPlace:
    """Where a variable is: its data file, offset and length in bytes."""

    shape: tuple[int, ...]
    shard: int
    offset: int
    length: int


class Checkpoint:
    """The variables of a checkpoint by name. `prefix` is the path of its files without `.index`."""

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        entries = dict(iter_table(prefix.with_name(f"{prefix.name}.index").read_bytes()))
        self._n_shards = read_number(entries.pop(b""), 1, default=1)
        self._entries = {name.decode(): value for name, value in entries.items()}

    def list_names(self) -> list[str]:
        return list(self._entries)

    def read(self, name: str) -> np.ndarray:
        place = read_place(name, self._entries[name])
        path = self._prefix.with_name(f"{self._prefix.name}.data-{place.shard:05d}-of-{self._n_shards:05d}")
        count = int(np.prod(place.shape, dtype=np.int64))
        if place.length != 4 * count or path.stat().st_size < place.offset + place.length:
            raise ValueError(f"{name}: {path.name} does not hold {count} numbers at {place.offset}; fetch it again")
        return np.fromfile(path, "<f4", count, offset=place.offset).reshape(place.shape)


def iter_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values, in order."""
    footer = table[-FOOTER_BYTES:]
    if len(footer) < FOOTER_BYTES or struct.unpack("<Q", footer[-8:])[0] != MAGIC:
        raise ValueError("this is not the index of a TensorFlow checkpoint")
    _, position = read_varint(footer, 0)  # the block of metadata, which is empty
    _, position = read_varint(footer, position)
    index, _ = read_block(table, footer, position)
    for _, handle in index:
        block, _ = read_block(table, handle, 0)
        yield from block


def read_block(table: bytes, handle: bytes, position: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """The entries of the block that a handle (offset and size) names, and where the handle ends."""
    offset, position = read_varint(handle, position)
    size, position = read_varint(handle, position)
    block = table[offset : offset + size]
    if table[offset + size] != UNCOMPRESSED:
        raise ValueError("the index of the checkpoint is compressed: save it again without compression")
    (n_restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (n_restarts + 1)
    entries, key, at = [], b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        length, at = read_varint(block, at)
        key = key[:shared] + block[at : at + own]  # a key is written as how much it shares with the one before
        at += own
        entries.append((key, block[at : at + length]))
        at += length
    return entries, position


def read_place(name: str, entry: bytes) -> TensorPlace:
    shape: list[int] = []
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    for field, value in iter_fields(entry):
        if isinstance(value, int):
            numbers[field] = value
        elif field == 2:
            sizes = (part for number, part in iter_fields(value) if number == 2 and isinstance(part, bytes))
            shape += [read_number(size, 1) for size in sizes]
    if numbers[1] != FLOAT32:
        raise ValueError(f"{name} has the type {numbers[1]}: only 32-bit floats can be read")
    return TensorPlace(tuple(shape), numbers[3], numbers[4], numbers[5])


def read_number(message: bytes, field: int, *, default: int = 0) -> int:
    return next(
        (value for number, value in iter_fields(message) if number == field and isinstance(value, int)), default
    )


def iter_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a protobuf message's fields."""
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        field, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = read_varint(message, at)
            yield field, value
            continue
        if kind == BYTES:
            length, at = read_varint(message, at)
        else:
            length = {FIXED64: 8, FIXED32: 4}[kind]
        yield field, message[at : at + length]
        at += length


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
