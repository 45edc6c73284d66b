"""A memory as JSON, in two parts: what is read and changes with every sentence, and the history.

Counts are packed: keys as a JSON list and numbers column by column, compressed, in Base64. For the CoNLL-2003 test set this
takes a tenth of the bytes of a JSON list.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from service.errors import StateError
from service.statistics.memory.history import FormHistory
from service.statistics.memory.memory import Generations, Memory
from service.statistics.memory.table import CountTable
from service.statistics.running import EMPTY_STATS_FIELDS
from service.statistics.snapshots import MAX_COUNT, SnapshotFormat, is_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

# A damaged record must not fill the memory.
MAX_PACKED_BYTES: Final = 4 * 2**20  # of a table, unpacked
MAX_TYPES: Final = 2**15
_COMPRESSION_LEVEL = 1  # level 6 takes three times as long and saves 6 % of the bytes
_SMALL, _LARGE = np.dtype("<u4"), np.dtype("<u8")

_TABLES = ("forms", "forms_before", "templates", "templates_before")
_NUMBERS = ("n_types", "sentences", "gate_words", "period")
RECENT_FORMAT = SnapshotFormat(
    "memory",
    version=2,
    fields=(*_NUMBERS, "gate_sum", *_TABLES, "history_generations"),
    optional=tuple(EMPTY_STATS_FIELDS),
    min_reader=1,
)
HISTORY_FORMAT = SnapshotFormat(
    "the history of forms",
    version=2,
    fields=("n_types", "generations", "forms", "last_seen"),
    optional=tuple(EMPTY_STATS_FIELDS),
    min_reader=1,
)


def write_recent(memory: Memory) -> dict[str, object]:
    """Everything but the history. `history_generations` says which history belongs to it."""
    tables = (*memory.forms, *memory.templates)
    return RECENT_FORMAT.write(
        {
            **{name: getattr(memory, name) for name in _NUMBERS},
            "gate_sum": memory.gate_sum,
            **{name: _pack_table(table) for name, table in zip(_TABLES, tables, strict=True)},
            "history_generations": None if memory.history is None else memory.history.generations,
            **EMPTY_STATS_FIELDS,
        }
    )


def write_history(history: FormHistory) -> dict[str, object]:
    """The history alone."""
    return HISTORY_FORMAT.write(
        {
            "n_types": history.n_types,
            "generations": history.generations,
            "forms": _pack_table(history.table),
            "last_seen": _pack_numbers(history.last_seen[:, None]),
            **EMPTY_STATS_FIELDS,
        }
    )


def read_memory(recent: object, history: FormHistory | None) -> Memory:
    """Reads everything but the history, and adds `history`; StateError if they are not valid.

    A history of another generation is not that of these tables. A reader between two records of one commit meets it,
    and then has none.
    """
    fields = RECENT_FORMAT.read(recent)
    n_types = _read_n_types(fields)
    sentences, gate_words, period = (_read_number(fields, name) for name in _NUMBERS[1:])
    gate_sum, generations = fields["gate_sum"], fields["history_generations"]
    if not isinstance(gate_sum, int) or isinstance(gate_sum, bool) or abs(gate_sum) > 2**63:
        raise StateError(f"`gate_sum` should be an integer, it is {gate_sum!r}")
    empty = Memory.create(n_types, has_history=False)
    current, before, templates, templates_before = (
        _unpack_table(fields[name], name, like)
        for name, like in zip(_TABLES, (*empty.forms, *empty.templates), strict=True)
    )
    return Memory(
        n_types,
        Generations(current, before),
        Generations(templates, templates_before),
        None if generations is None else _select_history(history, n_types, generations),
        sentences,
        gate_sum,
        gate_words,
        period,
    )


def _select_history(history: FormHistory | None, n_types: int, generations: object) -> FormHistory:
    """The history of these generations; an empty one if `history` is another."""
    if history is None:
        return FormHistory.empty(n_types)
    if history.n_types != n_types:
        raise StateError(f"the history is of {history.n_types} types, the memory of {n_types}")
    return history if history.generations == generations else FormHistory.empty(n_types)


def read_history(snapshot: object) -> FormHistory:
    """Reads what `write_history` wrote; StateError if it is not valid."""
    fields = HISTORY_FORMAT.read(snapshot)
    table = _unpack_table(fields["forms"], "forms", FormHistory.empty(_read_n_types(fields)).table)
    last_seen = _unpack_numbers(_decode(fields["last_seen"], "last_seen"), len(table), 1, "last_seen")
    return FormHistory(table, last_seen[:, 0].copy(), _read_number(fields, "generations"))


def _read_n_types(fields: Mapping[str, object]) -> int:
    n_types = _read_number(fields, "n_types")
    if not 0 < n_types <= MAX_TYPES:
        raise StateError(f"`n_types` should be a number of types, at most {MAX_TYPES}, it is {n_types}")
    return n_types


def _read_number(fields: Mapping[str, object], name: str) -> int:
    value = fields[name]
    if not is_count(value) or value > MAX_COUNT:
        raise StateError(f"`{name}` should be an integer that is not negative, it is {value!r}")
    return value


def _pack_table(table: CountTable) -> dict[str, object]:
    keys = json.dumps(table.keys, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return {"keys": _encode(keys), "numbers": _pack_numbers(table.numbers)}


def _pack_numbers(numbers: Integers) -> str:
    """Column by column, with 4 bytes a number where they suffice."""
    columns = [
        column.astype(_SMALL if not len(column) or column.max() < 2**32 else _LARGE)
        for column in np.ascontiguousarray(numbers.T)
    ]
    sizes = bytes(column.dtype.itemsize for column in columns)
    return _encode(b"".join([sizes, *(column.tobytes() for column in columns)]))


def _encode(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, _COMPRESSION_LEVEL)).decode()


def _decode(text: object, field: str) -> bytes:
    if not isinstance(text, str):
        raise StateError(f"`{field}` should be packed text, it is {type(text).__name__}")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_PACKED_BYTES)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise StateError(f"`{field}` can't be unpacked: {error}") from error
    if not unpacker.eof:
        raise StateError(f"`{field}` is cut off, or has more than {MAX_PACKED_BYTES} bytes")
    return data


def _unpack_table(packed: object, field: str, like: CountTable) -> CountTable:
    """The table, with the width and the limits of `like`."""
    if not isinstance(packed, dict) or packed.keys() != {"keys", "numbers"}:
        raise StateError(f"`{field}` should be an object with `keys` and `numbers`")
    try:
        keys = json.loads(_decode(packed["keys"], field).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise StateError(f"`{field}` has keys that are not JSON: {error}") from error
    if not isinstance(keys, list) or not set(map(type, keys)) <= {str}:
        raise StateError(f"`{field}` should have a list of texts as keys")
    numbers = _unpack_numbers(_decode(packed["numbers"], field), len(keys), like.width, field)
    return CountTable.from_rows(like.limits, keys, numbers)


def _unpack_numbers(data: bytes, n_rows: int, width: int, field: str) -> Integers:
    sizes = data[:width]
    if len(sizes) != width or not set(sizes) <= {_SMALL.itemsize, _LARGE.itemsize}:
        raise StateError(f"`{field}` should have {width} columns of 4 or 8 bytes")
    if len(data) != width + n_rows * sum(sizes):
        raise StateError(f"`{field}` has {len(data)} bytes where {width + n_rows * sum(sizes)} are needed")
    numbers = np.empty((n_rows, width), np.int64)
    start = width
    for column, size in enumerate(sizes):
        end = start + n_rows * size
        values = np.frombuffer(data[start:end], _SMALL if size == _SMALL.itemsize else _LARGE)
        if n_rows and values.max() > MAX_COUNT:
            raise StateError(f"`{field}` has a count of {values.max()}, which can't be real")
        numbers[:, column] = values
        start = end
    return numbers
