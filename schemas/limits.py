"""Renders the limits in docs/security.md, from the settings and the constants that set them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.configuration import find_settings_model, render_default
from service.api.http.connections.connection import HEAD_TIMEOUT_S, MAX_HEAD_BYTES
from service.api.http.json_text.split import MAX_RECORD_NAMES, MAX_RECORD_VALUES
from service.api.http.middleware.access_control import MAX_SIGNED_BODY_BYTES
from service.contracts.datasets.settings import MAX_LABEL_MAP_ENTRIES, MAX_LABEL_SET_TYPES
from service.contracts.probabilities import MAX_CLASSES, MAX_PROBABILITIES
from service.contracts.sentence import MAX_SENTENCE_CHARS, MAX_WORD_CHARS
from service.formats.text.alignment import MAX_TEXT_CHARS
from service.inference.classifier import MAX_SUBWORDS
from service.review.settlement import MAX_REVIEWERS_PER_ITEM
from service.settings import ENV_PREFIX, Settings

if TYPE_CHECKING:
    from pathlib import Path

START, END = "<!-- limits: written by `make schemas` -->", "<!-- end of limits -->"
LIMITING_SETTINGS = (
    ("api", "max_connections_per_address"),
    ("api", "max_body_bytes"),
    ("api", "max_pending_body_bytes"),
    ("api", "max_sentences"),
    ("api", "max_stream_bytes"),
    ("api", "max_streams"),
    ("api", "max_line_bytes"),
    ("api", "max_spool_bytes"),
    ("api", "idle_s"),
    ("api", "timeout_s"),
    ("api", "queue_sentences"),
    ("worker", "max_words"),
    ("worker", "max_datasets"),
    ("log", "max_bytes"),
    ("log", "reserve_bytes"),
)
FIXED_LIMITS = (
    (f"{MAX_HEAD_BYTES:,}", "Bytes of a request's address and headers"),
    (f"{HEAD_TIMEOUT_S:g}", "Seconds until the head of a request must be complete"),
    (f"{MAX_SIGNED_BODY_BYTES:,}", "Bytes of a webhook whose signature is checked"),
    (f"{MAX_RECORD_NAMES:,}", "Names of fields in a record above 200 kB"),
    (f"{MAX_RECORD_VALUES:,}", "Values in a record above 200 kB"),
    (f"{MAX_WORD_CHARS:,}", "Characters of a word"),
    (f"{MAX_SENTENCE_CHARS:,}", "Characters of a sentence"),
    (f"{MAX_TEXT_CHARS:,}", "Characters of a platform's text"),
    (f"{MAX_SUBWORDS:,}", "Subwords of a sentence for the model"),
    (f"{MAX_CLASSES:,}", "Classes of probabilities that are sent"),
    (f"{MAX_PROBABILITIES:,}", "Probabilities of a sentence"),
    (f"{MAX_LABEL_MAP_ENTRIES:,}", "Entries of a label map"),
    (f"{MAX_LABEL_SET_TYPES:,}", "Types of a label set"),
    (f"{MAX_REVIEWERS_PER_ITEM:,}", "Reviewers who can decide about an item; further ones get 409"),
)


def render_security(page: Path) -> str:
    """The page with its table of limits written anew."""
    before, _, rest = page.read_text().partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{_render_table()}\n{END}{after}"


def _render_table() -> str:
    rows = ["| limit | default | of what |", "|---|---|---|"]
    for group, name in LIMITING_SETTINGS:
        info = find_settings_model(Settings.model_fields[group]).model_fields[name]
        variable = f"{ENV_PREFIX}{group.upper()}_{name.upper()}"
        rows.append(f"| `{variable}` | {render_default(info)} | {info.description} |")
    rows += [f"| fixed | {value} | {what} |" for value, what in FIXED_LIMITS]
    return "\n".join(rows) + "\n"
