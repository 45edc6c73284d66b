"""All formats by name. Settings, command line, REST and exports use these names.

A new format is a module or folder with its `FORMAT`, and one line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.formats.plain import conll, jsonl, spans, tabular
from service.formats.platforms import argilla, doccano, huggingface, label_studio, prodigy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.formats.format import Format

# The order is that of recognition: where the signatures of two formats match an object, the first format wins.
# Prodigy's objects also have the keys of `spans`, and both may have the keys of doccano's.
_ALL: Final = (
    conll.FORMAT,
    jsonl.FORMAT,
    tabular.CSV_FORMAT,
    tabular.TSV_FORMAT,
    label_studio.FORMAT,
    argilla.FORMAT,
    prodigy.FORMAT,
    huggingface.FORMAT,
    spans.FORMAT,
    doccano.FORMAT,
)
FORMATS: Final[Mapping[str, Format]] = {form.name: form for form in _ALL}
