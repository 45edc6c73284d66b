"""The audit report: one self-contained HTML page without script, font or image.

The template autoescapes every value. The page's content security policy also forbids scripts and network access, so a
mistake in escaping could neither run nor load anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from jinja2 import Environment, StrictUndefined, Template

from service.audit.report.charts import (
    build_class_rows,
    build_confusion_table,
    build_histogram,
    build_noise_table,
)
from service.audit.report.palette import Palette
from service.audit.report.sentences import (
    SUSPECT_KINDS,
    DoubtView,
    build_sentence,
    build_suspect,
)
from service.labels import OUTSIDE, get_entity_type
from service.text import format_count, format_percent, pluralize, show_control_chars

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from service.audit.summary import AuditSummary
    from service.labels import Scheme

CONTENT_SECURITY_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
MAX_NAMED_SOURCES: Final = 3
MAX_CONFLICTS: Final = 20


class TypeRow(NamedTuple):
    """How well a trained model finds one entity type. A type that was not trained has a verdict only."""

    name: str
    examples: int
    verdict: str
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingSection:
    """The training of the model that judged its own training data: shown above the audit."""

    sentences: int
    sentences_read: int
    f1: float
    types: Sequence[TypeRow]
    conflicts: Sequence[Conflict]


class Conflict(NamedTuple):
    """A sentence that occurs with different labels: the ids of its versions."""

    words: str
    ids: str


@dataclass(frozen=True, slots=True)
class ReportMetadata:
    """Describes the audit run: its files, its model and how sentences were judged."""

    sources: Sequence[str]
    model: str
    fingerprint: str
    method: str
    token_score: str
    scheme: Scheme
    stream: bool
    rejected: int = 0
    created_at: datetime | None = None
    training: TrainingSection | None = None


class KeyFigure(NamedTuple):
    """A number at the top of the page."""

    name: str
    number: int
    share: float | None = None
    is_doubt: bool = False


class KindView(NamedTuple):
    """One kind of suspect: how many there are, compared with the most frequent kind, and an example."""

    id: str
    name: str
    meaning: str
    suspects: int
    share: float
    example: DoubtView | None


def render_page(summary: AuditSummary, metadata: ReportMetadata) -> str:
    """The whole HTML document."""
    # The paper's counting methods leave [0, 1]. The chart then shows the priority, which orders the list.
    by_score = not summary.scores.out_of_range
    scores, score_name = (summary.scores, "score") if by_score else (summary.priorities, "priority")
    kinds = _build_kinds(summary)
    most_frequent = max(kinds, key=lambda kind: kind.suspects)
    palette = Palette(get_entity_type(name) for name in summary.classes if name != OUTSIDE)
    return _load_template().render(
        content_security_policy=CONTENT_SECURITY_POLICY,
        style=files("service.audit.report").joinpath("page.css").read_text(encoding="utf-8"),
        summary=summary,
        metadata=metadata,
        max_conflicts=MAX_CONFLICTS,
        sources=_join_sources(metadata.sources),
        figures=_build_figures(summary, metadata),
        labels_per_doubt=max(1, round(summary.scored_words / max(summary.flagged_words, 1))),
        most_frequent_kind=most_frequent if most_frequent.suspects else None,
        charts=[
            build_histogram(scores, name=score_name, width=1040, height=260),
            build_histogram(scores, name=score_name, width=400, height=240, narrow=True),
        ],
        confusions=build_confusion_table(summary),
        classes=build_class_rows(summary),
        unused_types=summary.unused_types,
        kinds=kinds,
        noise=build_noise_table(summary),
        sentences=[build_sentence(assessment, metadata.scheme, palette) for assessment in summary.worst],
    )


@cache
def _load_template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_make_printable,
    )
    environment.filters |= {"count": format_count, "percent": format_percent, "plural": pluralize}
    return environment.from_string(files("service.audit.report").joinpath("page.html.jinja").read_text("utf-8"))


def _make_printable(value: object) -> object:
    """Replaces characters that HTML forbids. Rendered macros pass unchanged: their values were printed here before."""
    return show_control_chars(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _join_sources(sources: Sequence[str]) -> str:
    names = ", ".join(sources[:MAX_NAMED_SOURCES])
    return names if len(sources) <= MAX_NAMED_SOURCES else f"{names} and {len(sources) - MAX_NAMED_SOURCES} more"


def _build_figures(summary: AuditSummary, metadata: ReportMetadata) -> list[KeyFigure]:
    def share(part: int, whole: int) -> float | None:
        return part / whole if whole else None

    flagged_sentences, flagged_words = summary.flagged_sentences, summary.flagged_words
    figures = [
        KeyFigure("sentences", summary.sentences),
        KeyFigure("words", summary.words),
        KeyFigure("sentences flagged", flagged_sentences, share(flagged_sentences, summary.sentences), is_doubt=True),
        KeyFigure("labels doubted", flagged_words, share(flagged_words, summary.scored_words), is_doubt=True),
    ]
    unscored = sum(summary.unscored.values())
    if unscored:
        figures.append(KeyFigure("words not scored", unscored, share(unscored, summary.words)))
    if metadata.rejected:
        figures.append(KeyFigure("sentences skipped", metadata.rejected))
    if summary.deleted:
        figures.append(KeyFigure("sentences marked deleted", summary.deleted))
    return figures


def _build_kinds(summary: AuditSummary) -> list[KindView]:
    largest = max(summary.kinds.values(), default=0)
    kinds = []
    for kind, (name, meaning) in SUSPECT_KINDS.items():
        suspects = summary.kinds.get(kind, 0)
        example = summary.examples.get(kind)
        view = None if example is None else build_suspect(example.assessment, example.suspect)
        kinds.append(KindView(kind, name, meaning, suspects, suspects / largest if largest else 0.0, view))
    return kinds
