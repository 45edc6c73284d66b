"""Signatures: what an item's facets are, in the bits of one number, so that a filter checks them all at once.

A page is read in the order of the queue from an index that holds the signature of each item. An item whose signature lacks a
bit of the filter is passed over without a look at another table. Different values may have the same bits, so the facets of
the items that remain are compared as well. No item with all the facets is ever passed over.

Of the annotator, the batch and the model an item has at most one: their fields hold a number. The other fields have a bit for
each value.
"""

from __future__ import annotations

import json
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from service.contracts import SuspectKind
from service.labels import get_entity_type

if TYPE_CHECKING:
    from collections.abc import Iterable


class SignatureField(NamedTuple):
    shift: int
    width: int


# 62 bits: SQLite's integers have 63 and a sign.
NUMBER_FIELDS: Final = {
    "annotator": SignatureField(0, 12),
    "batch": SignatureField(12, 12),
    "model": SignatureField(24, 6),
}
BIT_FIELDS: Final = {
    "kind": SignatureField(30, 4),
    "given": SignatureField(34, 14),
    "suggested": SignatureField(48, 14),
}
KIND_BITS: Final = {kind: number for number, kind in enumerate(get_args(SuspectKind))}


class SignatureTest(NamedTuple):
    """An item may match if `signature & mask == bits`."""

    mask: int = 0
    bits: int = 0

    def join(self, other: SignatureTest) -> SignatureTest:
        """The test of an item that passes both."""
        return SignatureTest(self.mask | other.mask, self.bits | other.bits)


def build_signature(facets: Iterable[str]) -> int:
    """The signature of an item with these facets."""
    signature = 0
    for facet in facets:
        signature |= build_signature_test(facet).bits
    return signature


@lru_cache(maxsize=8192)
def build_signature_test(facet: str) -> SignatureTest:
    """The test that every item with this facet passes. All items pass that of a facet without a field, such as a task."""
    name, *values = json.loads(facet)
    if name == "pair":
        given, suggested = values
        return _set_bit("given", given).join(_set_bit("suggested", suggested))
    if name in NUMBER_FIELDS:
        shift, width = NUMBER_FIELDS[name]
        largest = (1 << width) - 1
        return SignatureTest(largest << shift, (1 + _hash(values[0]) % largest) << shift)  # 0: the item has none
    return _set_bit(name, values[0]) if name in BIT_FIELDS else SignatureTest()


def _set_bit(name: str, value: str) -> SignatureTest:
    """A label has the bit of its type: of an item's labels many are of one type."""
    shift, width = BIT_FIELDS[name]
    number = KIND_BITS.get(value, 0) if name == "kind" else _hash(get_entity_type(value)) % width
    bit = 1 << (shift + number)
    return SignatureTest(bit, bit)


def _hash(text: str) -> int:
    """The same in every process, unlike `hash`. A text may hold a surrogate."""
    return zlib.crc32(text.encode(errors="surrogatepass"))
