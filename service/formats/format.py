"""The definition of a format: everything that the service knows about one way to write labelled sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from service.contracts import LabelledSentence
    from service.formats.conversion import ObjectConverter
    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord, ReadOptions
    from service.formats.text.restored_text import WriteContext
    from service.formats.webhook import Webhook

FileReader: TypeAlias = "Callable[[TextSource, ReadOptions], Iterator[FileRecord]]"
SentenceWriter: TypeAlias = "Callable[[TextIO, Iterable[LabelledSentence], WriteContext], None]"
ObjectTest: TypeAlias = "Callable[[Mapping[str, Any]], bool]"
KeySets: TypeAlias = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write labelled sentences. `FORMATS` in the registry holds all of them.

    Files: `read` yields the records of a file, `write` writes sentences. `extensions` are those of file names that
    always hold this format, `write_extension` is the one that an export uses.

    JSON objects: `convert` yields the sentences of one object. An object is recognised by `is_object`, a test of its
    values, or by `signatures`: sets of keys, one of which must be present in full. `record_keys` are the required keys
    that OpenAPI names, one alternative each. `has_dataset` says that an object may name its own dataset.

    Platforms: `url_setting` is the API setting with the platform's address, `webhook` describes its events.
    """

    name: str
    read: FileReader
    write: SentenceWriter
    extensions: tuple[str, ...] = ()
    write_extension: str = ".jsonl"
    convert: ObjectConverter | None = None
    is_object: ObjectTest | None = None
    signatures: KeySets = ()
    record_keys: tuple[tuple[str, ...], ...] = ()
    has_dataset: bool = False
    url_setting: str | None = None
    webhook: Webhook[Any] | None = None

    @property
    def export_ending(self) -> str:
        """What follows the dataset in the name of an exported file: `.doccano.jsonl`, `.conll`."""
        return (
            self.write_extension if self.write_extension == f".{self.name}" else f".{self.name}{self.write_extension}"
        )


def build_signatures(*signatures: set[str]) -> KeySets:
    return tuple(frozenset(keys) for keys in signatures)
