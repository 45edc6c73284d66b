"""Writes assessments: JSON Lines with all fields, or CSV with one row per sentence for spreadsheets."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final, Literal, TextIO

from service.contracts import Assessment, WordScore
from service.formats.io.spreadsheet_cells import neutralize_cell

if TYPE_CHECKING:
    from collections.abc import Callable

OutputFormat = Literal["jsonl", "csv"]
OUTPUT_FORMATS_BY_ENDING: Final[dict[str, OutputFormat]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}

ASSESSMENT_COLUMNS: Final = (
    "rank",
    "id",
    "priority",
    "score",
    "flagged",
    "n_flags",
    "worst_index",
    "worst_token",
    "worst_given",
    "worst_p_given",
    "flags",
    "suspects",
    "n_unscored",
    "source",
    "text",
)


def build_assessment_writer(stream: TextIO, form: OutputFormat) -> Callable[[str, int], None]:
    """A function that writes one assessment, given as JSON, with its rank (1 is the worst).

    Open the stream with `newline=""`, so that line breaks inside CSV cells stay as they are.
    """
    if form == "jsonl":

        def write(line: str, rank: int) -> None:  # noqa: ARG001 - the order of the lines is the rank
            stream.write(line + "\n")

        return write
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(ASSESSMENT_COLUMNS)
    return lambda line, rank: rows.writerow(
        map(neutralize_cell, to_csv_row(Assessment.model_validate_json(line), rank))
    )


def to_csv_row(assessment: Assessment, rank: int) -> list[str]:
    """The cells of `ASSESSMENT_COLUMNS`. Numbers have all digits, because close ranks differ in the last ones only."""
    worst = find_worst_word(assessment)
    word = assessment.words[worst] if worst is not None else WordScore()
    return [
        str(rank),
        assessment.id or "",
        _format_number(assessment.priority),
        _format_number(assessment.score),
        "true" if assessment.flags else "false",
        str(len(assessment.flags)),
        "" if worst is None else str(worst),
        "" if worst is None else assessment.tokens[worst],
        "" if worst is None else assessment.labels[worst],
        _format_number(word.p_given),
        "; ".join(f"{flag.index}:{flag.token}:{flag.given}>{flag.suggested}" for flag in assessment.flags),
        "; ".join(suspect.kind for suspect in assessment.suspects),
        str(sum(word.unscored is not None for word in assessment.words)),
        assessment.source or "",
        " ".join(assessment.tokens),
    ]


def find_worst_word(assessment: Assessment) -> int | None:
    """The index of the word whose given label is least likely; the first one of equals."""
    scored = [(word.p_given, index) for index, word in enumerate(assessment.words) if word.p_given is not None]
    return min(scored)[1] if scored else None


def _format_number(value: float | None) -> str:
    return "" if value is None else repr(value)
