"""Prodigy: spans over its own tokens."""

from __future__ import annotations

from typing import Final

from service.formats.format import Format, build_signatures
from service.formats.platforms.prodigy import read, write

FORMAT: Final = Format(
    name=read.PLATFORM,
    read=read.read,
    write=write.write,
    convert=read.from_line,
    is_object=read.has_token_objects,
    signatures=build_signatures({"text", "answer"}, {"text", "_task_hash"}, {"text", "_input_hash"}),
    record_keys=(("text",),),
)
