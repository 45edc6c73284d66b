"""Remembers webhook deliveries, to recognise a repeated one and to date a deletion.

The memory is bounded, and shared by the API processes of one data folder. A repetition that reaches a replica elsewhere, or
another process at the same moment, appends its sentences twice, like any producer that sends twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from service.api.http.threads import run_in_thread
from service.api.ingest.delivery_file import MAX_EVENT_KEYS
from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from service.api.ingest.delivery_file import DeliveryFile
    from service.contracts import LabelledSentence

MAX_TRACKED_DATASETS = 1_000


class WebhookDeliveries:
    """Safe to use from several threads."""

    def __init__(self, file: DeliveryFile | None = None) -> None:
        """Without a file the deliveries are those of this process only."""
        self._file = file
        self._mutex = threading.Lock()
        self._delivered: OrderedDict[str, None] = OrderedDict()
        self._in_progress: set[str] = set()
        self._newest_revisions: OrderedDict[str, int] = OrderedDict()

    @asynccontextmanager
    async def deduplicate(self, keys: Iterable[str]) -> AsyncIterator[bool]:
        """Yields whether the delivery with these keys is new. If the context raises, it may be delivered again.

        A second delivery while the first is in progress raises `StreamError`, so that the platform retries later.
        """
        own_keys = set(keys)
        with self._mutex:
            if own_keys & self._in_progress:
                raise StreamError("the same event is being processed at this moment")
            is_new = not any(key in self._delivered for key in own_keys)
            if is_new:
                self._in_progress |= own_keys
        if not is_new:
            yield False
            return
        file = self._file if own_keys else None
        try:
            is_new = file is None or not await run_in_thread(file.contains_any, own_keys)
            yield is_new
        except BaseException:
            with self._mutex:
                self._in_progress -= own_keys
            raise
        with self._mutex:
            self._in_progress -= own_keys
            self._delivered.update(dict.fromkeys(own_keys))
            while len(self._delivered) > MAX_EVENT_KEYS:
                self._delivered.popitem(last=False)
        # Only now: the sentences are in the log, also if the request times out here.
        if is_new and file is not None:
            await run_in_thread(file.add, own_keys)

    def record_revisions(self, sentences: Iterable[LabelledSentence]) -> None:
        """Call it before the sentences are appended: a deletion that follows at once needs their revisions."""
        with self._mutex:
            for sentence in sentences:
                newest = self._newest_revisions.get(sentence.dataset, sentence.revision)
                self._newest_revisions[sentence.dataset] = max(sentence.revision, newest)
                self._newest_revisions.move_to_end(sentence.dataset)
            while len(self._newest_revisions) > MAX_TRACKED_DATASETS:
                self._newest_revisions.popitem(last=False)

    def get_newest_revision(self, dataset: str) -> int | None:
        """The highest revision of any sentence so far, by the platform's clock, which may be ahead of ours."""
        with self._mutex:
            return self._newest_revisions.get(dataset)
