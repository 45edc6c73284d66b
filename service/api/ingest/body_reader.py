"""Reads the records of a request: sentences with words and labels, or records of annotation platforms.

    query ─▶ parser of its format ─▶ records, each with its sentences ─▶ route

`POST /v1/score` and `POST /v1/sentences` read their bodies here, whole or line by line.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from service.api.access.caller import NAME_IN_BODY, NAME_IN_QUERY
from service.api.backend import get_request_id
from service.api.http.json_text.split import LARGE_BYTES
from service.api.http.ndjson.limiter import get_stream_limiter
from service.api.http.ndjson.response import MAX_BATCH_LINES, MAX_BATCH_RECORDS, NdjsonResponse
from service.api.http.problems import ForbiddenError, TooLargeError
from service.api.ingest.conversion_budget import ParsingStoppedError
from service.api.ingest.query import WORDS_FORMAT
from service.api.ingest.record_converter import RecordConverter
from service.api.ingest.sentence_parser import SentenceParser
from service.contracts.validation import join_path
from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from service.api.access.caller import Caller
    from service.api.backend import ScoringBackend
    from service.api.http.ndjson.lines import BodyLine
    from service.api.http.ndjson.response import LineHandler
    from service.api.ingest.parsed_records import ParsedBody, ParsedRecord
    from service.api.ingest.query import RecordQuery
    from service.contracts import LabelledSentence
    from service.errors import InferenceError

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_INLINE_COLONS = 2_000  # with as many names of fields, errors about them take as long as parsing 200 kB


class BodyParser(Protocol):
    """Parses the records of one request. Safe to use from several threads."""

    def parse_body(self, raw: bytes, options: Sequence[str]) -> ParsedBody: ...

    def parse_line(self, line: BodyLine) -> ParsedRecord: ...

    def list_scorable(self, record: ParsedRecord) -> Sequence[LabelledSentence]:
        """The sentences of a record that `/v1/score` assesses."""

    def locate_error(
        self, error: InvalidInput | InferenceError, record: ParsedRecord, sentence: LabelledSentence
    ) -> Exception:
        """The error of a sentence, with the sentence's location in the body."""


class BodyReader:
    """Reads the bodies of requests with this query.

    Sentences of platforms always get an id; with `assign_ids` so do others.
    """

    def __init__(
        self, query: RecordQuery, backend: ScoringBackend, caller: Caller, *, assign_ids: bool = False
    ) -> None:
        self.query = query
        self._caller = caller
        self._stopped = threading.Event()
        self._threads = backend.parsing_threads
        self._parser: BodyParser = (
            SentenceParser(query, backend, self._stopped, assign_ids=assign_ids)
            if query.is_words_format
            else RecordConverter(query, backend, self._stopped)
        )

    async def read_body(self, raw: bytes, *, options: Sequence[str] = ()) -> ParsedBody:
        """Reads one record, or a list beside which `options` may stand. Raises the first error."""
        if self._is_inline(raw):
            body = self._parser.parse_body(raw, options)
        else:
            body = await self._run(len(raw), self._parser.parse_body, raw, options)
        for record in body.records:
            self._check_datasets(record)
        return body

    async def read_lines(self, lines: Sequence[BodyLine]) -> dict[int, ParsedRecord | Exception]:
        """The record or the error of each line, by its number."""
        texts = [line.raw or b"" for line in lines]
        if self._is_inline(*texts):
            return self._parse_lines(lines)
        return await self._run(sum(map(len, texts)), self._parse_lines, lines)

    async def _run(self, size: int, parse: Callable[..., T], *arguments: object) -> T:
        """Parses in a thread. If nobody takes the result any more, parsing ends with its current sentence."""
        threads = self._threads.large if size > LARGE_BYTES else self._threads.small
        run = partial(contextvars.copy_context().run, parse, *arguments)
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, run)
        except asyncio.CancelledError:
            self._stopped.set()
            raise

    def _is_inline(self, *texts: bytes) -> bool:
        """Whether to parse in the event loop. Platform records go to a thread: they may hold many sentences."""
        return self.query.is_words_format and is_small_body(*texts)

    def _parse_lines(self, lines: Sequence[BodyLine]) -> dict[int, ParsedRecord | Exception]:
        records: dict[int, ParsedRecord | Exception] = {}
        for line in lines:
            try:
                records[line.number] = record = self._parser.parse_line(line)
                self._check_datasets(record)
            except (InvalidInput, TooLargeError, ForbiddenError) as error:
                records[line.number] = error
            except ParsingStoppedError:
                raise
            except Exception as error:  # an error of ours: other lines of the body still get their answers
                logger.exception("a line failed")
                records[line.number] = error
        return records

    def _check_datasets(self, record: ParsedRecord) -> None:
        """Raises `ForbiddenError` for a sentence of a dataset that the caller may not use."""
        if self._caller.datasets is not None:
            # A record of a platform has no place for it.
            naming = NAME_IN_BODY if record.format == WORDS_FORMAT else NAME_IN_QUERY
            for sentence in record.sentences:
                field = join_path((record.location, "dataset"))
                self._caller.check_dataset_of(sentence, field=field, naming=naming)

    def list_scorable(self, record: ParsedRecord) -> Sequence[LabelledSentence]:
        return self._parser.list_scorable(record)

    def locate_error(
        self, error: InvalidInput | InferenceError, record: ParsedRecord, sentence: LabelledSentence
    ) -> Exception:
        return self._parser.locate_error(error, record, sentence)

    def build_line_response(
        self, request: Request, handler: LineHandler, *, status_code: int = 200, concurrent: bool = False
    ) -> NdjsonResponse:
        """Answers an NDJSON body. A platform record may hold many sentences, so fewer are handled at a time."""
        is_words = self.query.is_words_format
        return NdjsonResponse(
            handler,
            limiter=get_stream_limiter(request),
            request_id=get_request_id(request),
            status_code=status_code,
            concurrent=concurrent,
            first_batch_lines=MAX_BATCH_LINES if is_words else 1,
            batch_lines=MAX_BATCH_LINES if is_words else MAX_BATCH_RECORDS,
        )


def is_small_body(*texts: bytes | bytearray) -> bool:
    """Whether sentences may be parsed in the event loop. A thread costs 60 µs, parsing a sentence of 20 words 7 µs."""
    if sum(map(len, texts)) > LARGE_BYTES:
        return False
    return sum([text.count(b":") for text in texts]) <= MAX_INLINE_COLONS
