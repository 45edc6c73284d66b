"""What webhooks have brought to this process: enough to know a repetition, and to date a deletion.

It is kept in memory and forgotten in the end: a repetition comes within minutes, and another replica that gets it has
a sentence twice in its log, as of any producer who sends twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.contracts import LabelledSentence

MAX_EVENT_KEYS = 20_000
MAX_TRACKED_DATASETS = 1_000


class WebhookDeliveries:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._delivered: OrderedDict[str, None] = OrderedDict()
        self._in_progress: set[str] = set()
        self._newest_revisions: OrderedDict[str, int] = OrderedDict()

    @contextmanager
    def deduplicate(self, keys: Iterable[str]) -> Iterator[bool]:
        """Whether none of these names was delivered before. What fails may come again.

        Two at the same time: the second is told to come later, when it is known what became of the first.
        """
        mine = set(keys)
        with self._mutex:
            if mine & self._in_progress:
                raise StreamError("the same event is being taken at this moment")
            new = not any(name in self._delivered for name in mine)
            if new:
                self._in_progress |= mine
        if not new:
            yield False
            return
        try:
            yield True
        except BaseException:
            with self._mutex:
                self._in_progress -= mine
            raise
        with self._mutex:
            self._in_progress -= mine
            self._delivered.update(dict.fromkeys(mine))
            while len(self._delivered) > MAX_EVENT_KEYS:
                self._delivered.popitem(last=False)

    def record_revisions(self, sentences: Iterable[LabelledSentence]) -> None:
        """To be told before they are in the log: a deletion that follows at once must know of them."""
        with self._mutex:
            for one in sentences:
                self._newest_revisions[one.dataset] = max(
                    one.revision, self._newest_revisions.get(one.dataset, one.revision)
                )
                self._newest_revisions.move_to_end(one.dataset)
            while len(self._newest_revisions) > MAX_TRACKED_DATASETS:
                self._newest_revisions.popitem(last=False)

    def get_newest_revision(self, dataset: str) -> int | None:
        """The highest revision that came, of any sentence: by the platform's clock, which may be ahead of ours."""
        with self._mutex:
            return self._newest_revisions.get(dataset)
