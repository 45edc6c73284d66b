"""Dead letters over REST: read them, correct them, and send them again."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request

from service.api.access.actor import get_actor
from service.api.access.caller import Caller
from service.api.backend import Backend, get_request_id
from service.api.dependencies import BackendDep, CallerDep, DatasetQuery, reject_unknown_parameters
from service.api.http.bodies import parse_message, read_json_object
from service.api.http.problems import NotFoundError, NotReadyError
from service.api.http.threads import run_in_thread
from service.api.ingest.request_origin import get_request_origin
from service.api.letters.models import (
    BulkReplayAnswer,
    BulkReplayRequest,
    LetterDetails,
    LetterGroup,
    LetterItem,
    LetterPage,
    ReplayAnswer,
    ReplayRequest,
)
from service.api.letters.replay import check_corrected, check_letter, select_valid
from service.errors import ConflictError, InvalidInput
from service.log.dead_letter_index import LetterSummary
from service.log.dead_letters import DeadLetter
from service.log.protocol import RecordPosition

router = APIRouter(tags=["dead letters"])

MAX_PAGE_SIZE: Final = 200
MAX_GROUPS: Final = 20
MAX_BULK_LETTERS: Final = 1_000
CATCH_UP_TIMEOUT_S: Final = 10.0

LetterIdPath = Annotated[
    str, Path(max_length=64, description="Partition and offset in the topic of dead letters", examples=["0-17"])
]
ReplayedQuery = Annotated[
    Literal["no", "yes", "all"], Query(description="Whether the letters were sent to the input topic again")
]


@router.get("/v1/dead-letters", summary="Dead letters", dependencies=[Depends(reject_unknown_parameters)])
async def dead_letters(
    backend: BackendDep,
    *,
    dataset: DatasetQuery = None,
    stage: Annotated[str | None, Query(max_length=64, description="Only letters of this stage")] = None,
    reason: Annotated[str | None, Query(max_length=1_000, description="Only letters with this whole reason")] = None,
    replayed: ReplayedQuery = "no",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 50,
    after: Annotated[str | None, Query(max_length=100, description="`next` of the previous page")] = None,
) -> LetterPage:
    """Messages that could not be assessed, the newest first, with the reason and what to do. Use `after` for the next page.

    503 while the log is read for the first time.
    """
    await _wait_until_read(backend)
    index = backend.dead_letters
    selected = await run_in_thread(_select, backend, dataset, stage, reason, replayed)
    before = None if after is None else _parse_cursor(after)
    page = [letter for letter in selected if before is None or letter.order < before]
    shown = page[:limit]
    waiting = Counter((each.stage, each.reason) for each in selected if not index.is_replayed(each.position))
    return LetterPage(
        items=[LetterItem.build(each, replayed=index.is_replayed(each.position)) for each in shown],
        next="-".join(map(str, shown[-1].order)) if len(page) > limit else None,
        total=len(selected),
        groups=[
            LetterGroup(stage=stage, reason=reason, letters=letters)
            for (stage, reason), letters in waiting.most_common(MAX_GROUPS)
        ],
        older=index.dropped,
    )


@router.get("/v1/dead-letters/{id}", summary="One dead letter")
async def dead_letter(
    letter_id: Annotated[LetterIdPath, Path(alias="id")], backend: BackendDep, caller: CallerDep
) -> LetterDetails:
    """The original message, why it could not be assessed, and whether it would be now."""
    letter = await _read_letter(backend, caller, letter_id)
    problem: InvalidInput | None = None
    try:
        await run_in_thread(check_letter, backend, letter)
    except InvalidInput as error:
        problem = error
    return LetterDetails.build_details(
        letter,
        replayed=backend.dead_letters.is_replayed(letter.record.position),
        problem=None if problem is None else str(problem),
        field=None if problem is None else problem.field,
    )


@router.post(
    "/v1/dead-letters/{id}/replay",
    summary="Send a dead letter again",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": ReplayRequest.model_json_schema()}},
        }
    },
)
async def replay(
    letter_id: Annotated[LetterIdPath, Path(alias="id")], request: Request, backend: BackendDep, caller: CallerDep
) -> ReplayAnswer:
    """Appends the message to the input topic again, byte for byte or as the corrected `sentence`.

    It is checked first by the rules of the stream: 422 names the field. The message names its dead letter in the header
    `labelwatch-replay-of`, so a letter is not sent twice by accident: 409, unless `again` is true.
    """
    letter = await _read_letter(backend, caller, letter_id)
    body = parse_message(ReplayRequest, await read_json_object(request))
    position, index = letter.record.position, backend.dead_letters
    if body.sentence is None:
        sentence = await run_in_thread(check_letter, backend, letter)
        message = letter.build_replay_message(backend.topics.sentences)
    else:
        sentence = await run_in_thread(check_corrected, backend, body.sentence)
        message = letter.build_corrected_message(backend.topics.sentences, sentence, get_request_origin(request))
    caller.check_dataset_of(sentence, field="sentence.dataset")
    if not body.dry_run:
        if not index.mark_replayed(position) and not body.again:
            raise ConflictError(f"the dead letter {letter_id} was sent again before: `again` sends it once more")
        try:
            audit = get_actor(request).build_message(
                backend.topics.audit, "dead-letters", dataset=sentence.dataset, subject=letter_id, letters=1
            )
            await backend.appender.append([message, *([audit] if backend.is_audited else [])])
        except BaseException:
            index.unmark(position)  # if it was written all the same, the log says so
            raise
    return ReplayAnswer(
        id=letter_id,
        state="valid" if body.dry_run else "replayed",
        dataset=sentence.dataset,
        sentence_id=sentence.id,
        request_id=get_request_id(request),
    )


@router.post(
    "/v1/dead-letters/replay",
    summary="Send several dead letters again",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": BulkReplayRequest.model_json_schema()}},
        }
    },
)
async def replay_all(request: Request, backend: BackendDep, caller: CallerDep) -> BulkReplayAnswer:
    """Sends letters again, byte for byte, for instance all of one reason after a change of settings.

    Only those that were not sent again and would be assessed now are sent. A request looks at up to 1,000 letters, the
    oldest first: repeat it while `remaining` is not 0 and `replayed` is not 0. `dry_run` counts without sending.
    """
    body = parse_message(BulkReplayRequest, await read_json_object(request))
    if body.dataset is not None or caller.datasets is not None:
        caller.check_dataset(body.dataset or "", field="dataset")
    await _wait_until_read(backend)
    selected = await run_in_thread(_select, backend, body.dataset, body.stage, body.reason, "no")
    looked_at = [letter.position for letter in selected[::-1][:MAX_BULK_LETTERS]]
    outcome = await run_in_thread(select_valid, backend, looked_at, caller)
    letters = outcome.letters
    if not body.dry_run:
        letters = [letter for letter in letters if backend.dead_letters.mark_replayed(letter.record.position)]
        try:
            messages = [each.build_replay_message(backend.topics.sentences) for each in letters]
            if letters and backend.is_audited:
                actor = get_actor(request)
                messages.append(
                    actor.build_message(
                        backend.topics.audit, "dead-letters", dataset=body.dataset, letters=len(letters)
                    )
                )
            await backend.appender.append(messages)
        except BaseException:
            for letter in letters:
                backend.dead_letters.unmark(letter.record.position)
            raise
    return BulkReplayAnswer(
        replayed=len(letters),
        invalid=outcome.n_invalid,
        problems=outcome.problems,
        remaining=max(0, len(selected) - len(looked_at)),
        request_id=get_request_id(request),
    )


async def _wait_until_read(backend: Backend) -> None:
    index = backend.dead_letters
    if not await run_in_thread(index.start, CATCH_UP_TIMEOUT_S):
        raise NotReadyError(
            f"dead letters can't be read: {index.error}"
            if index.error
            else "the log is being read for dead letters and what was sent again: try again in a moment"
        )


def _select(
    backend: Backend, dataset: str | None, stage: str | None, reason: str | None, replayed: str
) -> list[LetterSummary]:
    index = backend.dead_letters
    return [
        letter
        for letter in index.list_letters()
        if dataset in (None, letter.dataset)
        and stage in (None, letter.stage)
        and reason in (None, letter.reason)
        and (replayed == "all" or index.is_replayed(letter.position) == (replayed == "yes"))
    ]


async def _read_letter(backend: Backend, caller: Caller, letter_id: str) -> DeadLetter:
    position = _parse_id(letter_id)
    await _wait_until_read(backend)
    letter = None if position is None else await run_in_thread(backend.dead_letters.read, position)
    if letter is None:
        raise NotFoundError(f"there is no dead letter {letter_id!r}, or the log has deleted it by its retention")
    dataset = LetterSummary.build(letter).dataset
    if caller.datasets is not None:
        caller.check_dataset(dataset or "of an unreadable message")
    return letter


def _parse_id(letter_id: str) -> RecordPosition | None:
    numbers = re.fullmatch(r"(\d{1,9})-(\d{1,18})", letter_id, re.ASCII)
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def _parse_cursor(text: str) -> tuple[int, int, int]:
    numbers = re.fullmatch(r"(\d{1,18})-(\d{1,9})-(\d{1,18})", text, re.ASCII)
    if numbers is None:
        raise InvalidInput("not a value of `next`: copy it from the page before", field="after")
    return int(numbers[1]), int(numbers[2]), int(numbers[3])
