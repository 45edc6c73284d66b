"""`POST /v1/score` line by line: scores a few lines of an NDJSON body at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.api.http.problems import render_problem_line
from service.api.ingest.parsed_records import ParsedRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.http.ndjson.lines import BodyLine
    from service.api.ingest.body_reader import BodyReader
    from service.api.scoring.scorer import ScoreOptions, Scorer

SCORE_BATCH_SENTENCES: Final = 64  # a line may hold many sentences: other requests run in between


class LineScorer:
    """Answers the lines of one request. Only the first lines raise `OverloadedError`; later ones wait for space."""

    def __init__(self, reader: BodyReader, scorer: Scorer, options: ScoreOptions, *, request_id: str) -> None:
        self._reader = reader
        self._scorer = scorer
        self._options = options
        self._request_id = request_id

    async def score_lines(self, lines: Sequence[BodyLine], first: bool) -> list[bytes]:
        if first:  # an unknown method is an error of the request, not of each line
            self._scorer.get_context(self._reader.query.dataset or "default", self._options)
        records = await self._reader.read_lines(lines)
        assessments = await self._score(records, wait=not first)
        return [self._render_line(number, record, assessments) for number, record in records.items()]

    async def _score(self, records: dict[int, ParsedRecord | Exception], *, wait: bool) -> dict[int, list[bytes]]:
        """The assessments of each record. A record with a sentence that can't be scored becomes its first error.

        The response watches whether the client disconnects: nothing else may read the body meanwhile.
        """
        pairs = [
            (record, sentence)
            for record in records.values()
            if isinstance(record, ParsedRecord)
            for sentence in self._reader.list_scorable(record)
        ]
        assessments: dict[int, list[bytes]] = {}
        for start in range(0, len(pairs), SCORE_BATCH_SENTENCES):
            batch = pairs[start : start + SCORE_BATCH_SENTENCES]
            result = await self._scorer.score(
                [sentence for _, sentence in batch],
                self._options,
                request_id=self._request_id,
                wait=wait or start > 0,
            )
            for (record, sentence), answer in zip(batch, result.answers, strict=True):
                if isinstance(answer, bytes):
                    assessments.setdefault(record.number, []).append(answer)
                elif isinstance(records[record.number], ParsedRecord):
                    records[record.number] = self._reader.locate_error(answer, record, sentence)
        return assessments

    def _render_line(self, number: int, record: ParsedRecord | Exception, assessments: dict[int, list[bytes]]) -> bytes:
        if not isinstance(record, ParsedRecord):
            return render_problem_line(record, request_id=self._request_id, line=number)
        answers = assessments.get(number, [])
        if self._reader.query.is_words_format:
            return answers[0] + b"\n"
        return b'%b,"assessments":[%b]}\n' % (record.to_json_line().removesuffix(b"}"), b",".join(answers))
