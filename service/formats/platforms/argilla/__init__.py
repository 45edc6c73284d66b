"""Argilla 2: records with their responses, and webhooks."""

from __future__ import annotations

from typing import Final

from service.formats.format import Format, build_signatures
from service.formats.platforms.argilla import read, write
from service.formats.platforms.argilla.responses import PLATFORM
from service.formats.platforms.argilla.webhook import WEBHOOK

FORMAT: Final = Format(
    name=PLATFORM,
    read=read.read,
    write=write.write,
    write_extension=".json",
    convert=read.from_record,
    signatures=build_signatures({"fields", "responses"}, {"type", "timestamp", "data"}),
    record_keys=(("fields", "responses"), ("type", "data")),
    url_setting="argilla_url",
    webhook=WEBHOOK,
)
