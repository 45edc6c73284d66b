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

MOST_NAMES = 20_000
MOST_DATASETS = 1_000


class Deliveries:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._done: OrderedDict[str, None] = OrderedDict()
        self._under_way: set[str] = set()
        self._newest: OrderedDict[str, int] = OrderedDict()

    @contextmanager
    def once(self, names: Iterable[str]) -> Iterator[bool]:
        """Whether none of these names was delivered before. What fails may come again.

        Two at the same time: the second is told to come later, when it is known what became of the first.
        """
        mine = set(names)
        with self._mutex:
            if mine & self._under_way:
                raise StreamError("the same event is being taken at this moment")
            new = not any(name in self._done for name in mine)
            if new:
                self._under_way |= mine
        if not new:
            yield False
            return
        try:
            yield True
        except BaseException:
            with self._mutex:
                self._under_way -= mine
            raise
        with self._mutex:
            self._under_way -= mine
            self._done.update(dict.fromkeys(mine))
            while len(self._done) > MOST_NAMES:
                self._done.popitem(last=False)

    def brought(self, sentences: Iterable[LabelledSentence]) -> None:
        """To be told before they are in the log: a deletion that follows at once must know of them."""
        with self._mutex:
            for one in sentences:
                self._newest[one.dataset] = max(one.revision, self._newest.get(one.dataset, one.revision))
                self._newest.move_to_end(one.dataset)
            while len(self._newest) > MOST_DATASETS:
                self._newest.popitem(last=False)

    def newest(self, dataset: str) -> int | None:
        """The highest revision that came, of any sentence: by the platform's clock, which may be ahead of ours."""
        with self._mutex:
            return self._newest.get(dataset)
