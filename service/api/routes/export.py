"""The sentences of a dataset as a file, with the corrections of reviewers if asked for."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from service.api.access.reviewers import may_see_hidden
from service.api.backend import Backend
from service.api.dependencies import BackendDep, CallerDep, reject_unknown_parameters
from service.api.http.problems import NotReadyError
from service.api.http.threads import run_in_thread
from service.contracts import DatasetName, LabelledSentence
from service.contracts.validation import shorten
from service.datasets.registry import check_dataset_exists
from service.errors import InvalidInput, MissingModelError
from service.formats import FORMATS, write_sentences
from service.formats.text.restored_text import WriteContext
from service.labels import Scheme
from service.review.export import ExportSelection, select_sentences
from service.review.stored_sentences import StoredSentences, read_decisions

logger = logging.getLogger(__name__)

router = APIRouter(tags=["datasets"])

MEDIA_TYPES: Final = {".csv": "text/csv", ".json": "application/json", ".jsonl": "application/x-ndjson"}
OTHER_MEDIA_TYPE: Final = "text/plain"


@router.get(
    "/v1/export",
    summary="Export the sentences of a dataset",
    response_class=FileResponse,
    dependencies=[Depends(reject_unknown_parameters)],
    responses={
        200: {
            "description": "The file",
            "content": {
                media_type: {"schema": {} if media_type == "application/json" else {"type": "string"}}
                for media_type in (*MEDIA_TYPES.values(), OTHER_MEDIA_TYPE)
            },
        }
    },
)
async def export(
    backend: BackendDep,
    caller: CallerDep,
    *,
    dataset: Annotated[DatasetName, Query(description="The dataset")] = "default",
    form: Annotated[
        str, Query(alias="format", description="The format of the file", json_schema_extra={"enum": list(FORMATS)})
    ] = "jsonl",
    decisions: Annotated[
        bool, Query(description="The labels that reviewers corrected; without it, the given labels")
    ] = False,
    decided_only: Annotated[bool, Query(description="Only sentences with a decision; needs `decisions`")] = False,
    reviewer: Annotated[
        str | None,
        Query(
            max_length=128,
            description="Only the decisions of this reviewer; needs `decisions`. Who is neither this reviewer nor an admin gets "
            "those about sentences that have all their decisions",
        ),
    ] = None,
) -> FileResponse:
    """Each sentence in its newest revision, as `labelwatch export` writes it. Cells of CSV never are formulas.

    Sentences are read from the log, as far back as its retention reaches. One export runs at a time in a process: another
    one is answered 503.
    """
    if form not in FORMATS:
        raise InvalidInput(f"it is {shorten(form)!r}: choose one of {', '.join(FORMATS)}", field="format")
    if (decided_only or reviewer is not None) and not decisions:
        raise InvalidInput("it needs `decisions=true`", field="decided_only" if decided_only else "reviewer")
    check_dataset_exists(dataset, backend.state_view.list_names(), field="dataset")
    selection = ExportSelection(
        decisions=decisions,
        decided_only=decided_only,
        reviewer=reviewer or None,
        settled_only=not may_see_hidden(caller, reviewer or ""),
    )
    descriptor, name = tempfile.mkstemp(prefix="labelwatch-export-")  # readable for its owner only
    os.close(descriptor)
    path = Path(name)
    try:
        await run_in_thread(_write_file, backend, path, dataset, form, selection)
    except BaseException:  # also if the request has timed out: then the thread goes on, with a file without a name
        path.unlink(missing_ok=True)
        raise
    extension = FORMATS[form].write_extension
    return FileResponse(
        path,
        media_type=MEDIA_TYPES.get(extension, OTHER_MEDIA_TYPE),
        filename=f"{dataset}{FORMATS[form].export_ending}",
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


def _write_file(backend: Backend, path: Path, dataset: str, form: str, selection: ExportSelection) -> None:
    """Writes into the file, which must be there: it is not, if the request has ended by now."""
    if not backend.export_slot.acquire(blocking=False):
        raise NotReadyError("another export runs: try again when it has ended")
    try:
        with path.open("r+", encoding="utf-8", newline="") as file, closing(backend.open_log()) as log:
            settings = backend.state_view.get_settings(dataset)
            review = read_decisions(log, backend.topics, dataset, overlap=settings.overlap)
            sentences = StoredSentences(log, backend.topics, dataset)
            scheme = _find_scheme(backend, dataset)
            selected = select_sentences(sentences, review, selection, scheme=scheme, types=settings.label_set)
            write_sentences(file, form, _iterate(selected), WriteContext(scheme))
            if unreadable := sentences.list_unreadable():
                logger.warning("%d stored records were left out of an export: %s", len(unreadable), unreadable[0])
    finally:
        backend.export_slot.release()


def _iterate(selected: Iterator[tuple[LabelledSentence, object, object]]) -> Iterator[LabelledSentence]:
    return (each[0] for each in selected)


def _find_scheme(backend: Backend, dataset: str) -> Scheme:
    """The dataset's own scheme, else that of its model; IOB2, the most common, if the model is missing."""
    settings = backend.state_view.get_settings(dataset)
    if settings.scheme is not None:
        return Scheme(settings.scheme)
    try:
        return backend.state_view.get_judge(dataset).scheme
    except MissingModelError:
        return Scheme.IOB2
