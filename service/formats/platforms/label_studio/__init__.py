"""Label Studio: exports, webhooks, and predictions that show assessments on its tasks."""

from __future__ import annotations

from typing import Final

from service.formats.format import Format, build_signatures
from service.formats.platforms.label_studio import read, write
from service.formats.platforms.label_studio.annotations import PLATFORM
from service.formats.platforms.label_studio.webhook import WEBHOOK

FORMAT: Final = Format(
    name=PLATFORM,
    read=read.read,
    write=write.write,
    write_extension=".json",
    convert=read.from_object,
    signatures=build_signatures(
        {"action", "project"},
        {"action", "annotation"},
        {"action", "annotations"},
        {"annotations", "data"},
        {"annotations", "was_cancelled"},  # in a long task the data may follow after the head of the file
        {"annotation_id"},
    ),
    record_keys=(("annotations",), ("annotation_id",), ("action",)),
    url_setting="label_studio_url",
    webhook=WEBHOOK,
)
