"""`POST /v1/score` for the records of annotation platforms: each is told with what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import to_json
from starlette.responses import Response

from service.api.backend import backend_of, request_id_of
from service.api.http.line_spool import streams_of
from service.api.http.middleware import is_ndjson
from service.api.http.ndjson import RECORDS_AT_ONCE, Streamed
from service.api.http.problems import encoded, problem_of
from service.api.ingest.platform_records import Converting, Made, read_lines, read_records, told
from service.api.scoring.responses import check_datasets, joined, judged
from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from service.api.http.line_spool import Line
    from service.api.ingest.query import Wanted
    from service.api.scoring.scorer import Choice, Scorer
    from service.contracts import LabelledSentence
    from service.errors import InferenceError

JUDGED_TOGETHER = 64  # a line may hold many sentences: others have their turn in between


async def score_records(request: Request, scorer: Scorer, choice: Choice, wanted: Wanted) -> Response:
    """Deleted, skipped and rejected annotations have nothing to judge: they are told, and left out."""
    backend = backend_of(request)
    if is_ndjson(request.headers):
        converting = Converting(wanted, backend)

        async def answered(lines: Sequence[Line], first: bool) -> list[bytes]:
            if first:  # a choice that does not exist is a mistake of the request, not of each line
                scorer.standard(wanted.dataset or "default", choice)
            return await _score_lines(request, scorer, choice, await read_lines(lines, converting), first=first)

        return Streamed(
            answered,
            streams=streams_of(request),
            request_id=request_id_of(request),
            ahead=True,
            at_first=1,
            at_once=RECORDS_AT_ONCE,
        )
    found = await read_records(await request.body(), wanted, backend, options=choice._fields)
    if found.options:
        choice = choice._replace(**found.options)
    sentences = [(one, sentence) for one in found.made for sentence in _to_judge(one)]
    check_datasets([each for _, each in sentences], [one.place or "" for one, _ in sentences])
    scored = await judged(request, scorer, [each for _, each in sentences], choice)
    for (one, sentence), answer in zip(sentences, scored.answers, strict=True):
        if not isinstance(answer, bytes):
            raise _wrong(answer, one, sentence)
    records = to_json([one.model_dump(exclude_none=True) for one in found.outcomes()])
    return Response(
        joined(scored, records), media_type="application/json", headers={"Server-Timing": scored.server_timing}
    )


def _to_judge(one: Made) -> list[LabelledSentence]:
    return [sentence for sentence in one.sentences if not sentence.deleted]


def _wrong(error: InvalidInput | InferenceError, one: Made, sentence: LabelledSentence) -> Exception:
    identity = sentence.id if len(one.sentences) > 1 else None
    if isinstance(error, InvalidInput):
        return told(error, one.number, one.place, identity=identity)
    return type(error)(f"record {one.number}{f' ({identity})' if identity else ''}: {error}")


async def _score_lines(
    request: Request, scorer: Scorer, choice: Choice, made: dict[int, Made | Exception], *, first: bool
) -> list[bytes]:
    """What came of each line, with its assessments, or a problem. Once some are answered, a full queue is waited for."""
    sentences = [(one, sentence) for one in made.values() if isinstance(one, Made) for sentence in _to_judge(one)]
    assessments: dict[int, list[bytes]] = {}
    for at in range(0, len(sentences), JUDGED_TOGETHER):
        some = sentences[at : at + JUDGED_TOGETHER]
        scored = await judged(request, scorer, [each for _, each in some], choice, wait=at > 0 or not first)
        for (one, sentence), answer in zip(some, scored.answers, strict=True):
            if isinstance(answer, bytes):
                assessments.setdefault(one.number, []).append(answer)
            elif isinstance(made[one.number], Made):  # the first error of a line is its answer
                made[one.number] = _wrong(answer, one, sentence)
    request_id = request_id_of(request)
    lines = []
    for number, found in made.items():
        if isinstance(found, Made):
            start = found.line().removesuffix(b"}")
            lines.append(b'%b,"assessments":[%b]}\n' % (start, b",".join(assessments.get(number, []))))
        else:
            lines.append(encoded(problem_of(found, request_id=request_id, line=number)) + b"\n")
    return lines
