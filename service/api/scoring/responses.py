"""What answers of `POST /v1/score` share, whatever their sentences came as."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect

from service.api.backend import backend_of, request_id_of
from service.api.http.problems import OverloadedError
from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from starlette.requests import Request

    from service.api.scoring.scorer import Choice, Scored, Scorer
    from service.contracts import LabelledSentence

MOST_DATASETS = 20  # of a list: the answer tells settings and thresholds of each
WATCH_FROM = 64  # sentences: who waits behind fewer is answered before a look whether it is still there pays


async def judged(
    request: Request, scorer: Scorer, sentences: Sequence[LabelledSentence], choice: Choice, *, wait: bool = False
) -> Scored:
    """The sentences of one list. With `wait` a full queue is waited for."""
    backend = backend_of(request)
    work = scorer.score(sentences, choice, request_id=request_id_of(request), wait=wait)
    if not wait and backend.batcher.waiting + len(sentences) > WATCH_FROM:
        work = _unless_gone(request, work)
    try:
        return await work
    except OverloadedError:
        backend.telemetry.overloaded()
        raise


def check_datasets(sentences: Sequence[LabelledSentence], places: Sequence[str] | None = None) -> None:
    """`places`: what the sentences are called from the body's beginning, where they are no list of sentences."""
    seen: set[str] = set()
    for place, sentence in enumerate(sentences):
        seen.add(sentence.dataset)
        if len(seen) > MOST_DATASETS:
            where = f"sentences.{place}" if places is None else places[place]
            raise InvalidInput(
                f"{sentence.dataset!r} is dataset number {len(seen)} of the list, at most {MOST_DATASETS} are taken "
                "at once: send several requests",
                field=f"{where}.dataset",
            )


def joined(scored: Scored, records: bytes | None = None) -> bytes:
    """Written by hand: everything in it is JSON already."""
    answers = b",".join(answer for answer in scored.answers if isinstance(answer, bytes))
    settings = b",".join(b'"%b":%b' % (name.encode(), each.settings) for name, each in scored.standards.items())
    thresholds = b",".join(b'"%b":%b' % (name.encode(), each.thresholds) for name, each in scored.standards.items())
    more = b"" if records is None else b',"records":' + records
    return b'{"assessments":[%b],"settings":{%b},"thresholds":{%b}%b}' % (answers, settings, thresholds, more)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Scored]) -> Scored:
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
