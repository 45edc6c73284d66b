"""What answers of `POST /v1/score` share, whatever their sentences came as."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect

from service.api.backend import get_backend, get_request_id
from service.api.http.problems import OverloadedError
from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from starlette.requests import Request

    from service.api.scoring.scorer import ScoreOptions, Scorer, ScoringResult
    from service.contracts import LabelledSentence

MAX_DATASETS_PER_REQUEST = 20  # of a list: the answer tells settings and thresholds of each
MIN_WATCHED_SENTENCES = 64  # sentences: who waits behind fewer is answered before a look whether it is still there pays


async def score_unless_disconnected(
    request: Request,
    scorer: Scorer,
    sentences: Sequence[LabelledSentence],
    options: ScoreOptions,
    *,
    wait: bool = False,
) -> ScoringResult:
    """The sentences of one list. With `wait` a full queue is waited for."""
    backend = get_backend(request)
    work = scorer.score(sentences, options, request_id=get_request_id(request), wait=wait)
    if not wait and backend.batcher.waiting + len(sentences) > MIN_WATCHED_SENTENCES:
        work = _cancel_on_disconnect(request, work)
    try:
        return await work
    except OverloadedError:
        backend.telemetry.count_overload()
        raise


def check_datasets(sentences: Sequence[LabelledSentence], locations: Sequence[str] | None = None) -> None:
    """`places`: what the sentences are called from the body's beginning, where they are no list of sentences."""
    seen: set[str] = set()
    for place, sentence in enumerate(sentences):
        seen.add(sentence.dataset)
        if len(seen) > MAX_DATASETS_PER_REQUEST:
            where = f"sentences.{place}" if locations is None else locations[place]
            raise InvalidInput(
                f"{sentence.dataset!r} is dataset number {len(seen)} of the list, at most {MAX_DATASETS_PER_REQUEST} are taken "
                "at once: send several requests",
                field=f"{where}.dataset",
            )


def render_scores(scored: ScoringResult, records: bytes | None = None) -> bytes:
    """Written by hand: everything in it is JSON already."""
    answers = b",".join(answer for answer in scored.answers if isinstance(answer, bytes))
    settings = b",".join(b'"%b":%b' % (name.encode(), each.settings_json) for name, each in scored.contexts.items())
    thresholds = b",".join(b'"%b":%b' % (name.encode(), each.thresholds_json) for name, each in scored.contexts.items())
    more = b"" if records is None else b',"records":' + records
    return b'{"assessments":[%b],"settings":{%b},"thresholds":{%b}%b}' % (answers, settings, thresholds, more)


async def _cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, ScoringResult]) -> ScoringResult:
    """Stops waiting when the client has gone."""
    task = asyncio.current_task()
    gone = False

    async def look() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        if task is not None:
            task.cancel()

    looking = asyncio.create_task(look())
    try:
        return await work
    except asyncio.CancelledError:
        if gone and task is not None:
            task.uncancel()
            raise ClientDisconnect from None
        raise
    finally:
        looking.cancel()
