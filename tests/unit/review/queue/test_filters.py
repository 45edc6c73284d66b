"""Filters with several criteria: they select the right items in every way of reading, and read few rows."""

from __future__ import annotations

import time
from heapq import merge
from itertools import combinations, count, product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from service.labels import get_entity_type
from service.review.projection.facets import encode_facet
from service.review.projection.signatures import build_signature, build_signature_test
from service.review.queue.filters import QueueFilter, QueuePosition, TooManyStepsError, limit_steps, select_page
from service.review.queue.queue import ReviewQueue
from tests.support.review_queue import (
    NOW,
    MemoryLog,
    QueueHarness,
    make_decision_output,
    make_scored_output,
    make_settings_output,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from service.log.protocol import Output

ITEMS: Final = 240
N_CROSSED: Final = 2_000
KINDS: Final = ("missed", "spurious", "type", "boundary")
LABELS: Final = ("B-PER", "I-PER", "B-ORG", "B-LOC", "O")
WAYS: Final[dict[str, dict[str, float]]] = {
    "looked up": {"criteria.MAX_RARE_ITEMS": 10_000},
    "joined": {"criteria.MAX_RARE_ITEMS": -1, "filters.READ_STEPS": 0},
    "in order": {"criteria.MAX_RARE_ITEMS": -1, "criteria.MAX_JOINED_ITEMS": -1},
    "in order, with lookups of words": {
        "criteria.MAX_RARE_ITEMS": -1,
        "criteria.MAX_JOINED_ITEMS": -1,
        "word_search.SAMPLE_SIZE": 1,
        "word_search.MIN_COMMON_SHARE": 0.0,
    },
    "with too many lookups of words": {
        "criteria.MAX_RARE_ITEMS": -1,
        "word_search.SAMPLE_SIZE": 1,
        "word_search.MIN_COMMON_SHARE": 0.0,
        "word_search.MAX_LOOKUPS": 20,
    },
    "with lookups of words that take too long": {
        "criteria.MAX_RARE_ITEMS": -1,
        "word_search.SAMPLE_SIZE": 1,
        "word_search.MIN_COMMON_SHARE": 0.0,
        "word_search.MAX_LOOKUP_S": 0.0,
    },
}
VALUES: Final[dict[str, tuple[str, ...]]] = {
    "annotator": ("ann-0", "nobody"),
    "batch": ("batch-1",),
    "kind": ("spurious",),
    "model": ("model-1",),
    "given": ("PER", "B-PER", "MISC"),
    "suggested": ("ORG", "O"),
    "q": ("common", "rare", "absent"),
    "verdict": ("error",),
}


def draw_items(items: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(0)
    for number in range(items):
        given, suggested = (str(label) for label in random.choice(LABELS, 2, replace=False))
        yield {
            "id": f"s{number:03}",
            "p": float(random.uniform(0.01, 0.6)),
            "annotator": f"ann-{random.integers(3)}",
            "batch": (None, "batch-1", "batch-2")[random.integers(3)],
            "kind": str(random.choice(KINDS)),
            "model": f"model-{random.integers(2)}",
            "given": given,
            "suggested": suggested,
            "q": ("common", "rare", "other")[random.choice(3, p=(0.7, 0.05, 0.25))],
            "verdict": ("error", "ok", None)[random.choice(3, p=(0.2, 0.1, 0.7))],
        }


def to_outputs(item: dict[str, Any]) -> Iterator[Output]:
    span = {"start": 1, "end": 2, "type": "PER"}
    sides = {"missed": ("suggested_span",), "spurious": ("given_span",)}.get(
        item["kind"], ("given_span", "suggested_span")
    )
    yield make_scored_output(
        item["id"],
        item["p"],
        labels=("O", item["given"], "O"),
        suggested=item["suggested"],
        suspects=({"kind": item["kind"], "confidence": 0.9, **dict.fromkeys(sides, span)},),
        annotator=item["annotator"],
        batch=item["batch"],
        model={"name": item["model"], "fingerprint": "f00d"},
        tokens=("a", item["q"], "b"),
    )
    if item["verdict"] is not None:
        yield make_decision_output(item["id"], item["verdict"])


def matches(item: dict[str, Any], filters: dict[str, str]) -> bool:
    decided = item["verdict"] is not None
    shown = {"open": not decided, "decided": decided, "all": True}[filters.get("state", "open")]
    return shown and all(
        value in (item[name], get_entity_type(item[name])) if name in ("given", "suggested") else item[name] == value
        for name, value in filters.items()
        if name != "state"
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QueueHarness, list[dict[str, Any]]]]:
    """A queue without a ranker, and its items in the order of the queue."""
    harness = QueueHarness(MemoryLog(), ReviewQueue(tmp_path_factory.mktemp("filters") / "queue.sqlite"))
    items = list(draw_items(ITEMS))
    harness.write(
        make_settings_output(name="default", ranker="off"), *(output for item in items for output in to_outputs(item))
    )
    order = {sentence_id: place for place, sentence_id in enumerate(harness.list_ids(state="all"))}
    assert len(order) == ITEMS
    yield harness, sorted(items, key=lambda item: order[item["id"]])
    harness.close()


def list_combinations() -> list[dict[str, str]]:
    """All filters alone and in pairs, and some of the triples, in three states."""
    found = [
        {"state": state, **dict(zip(names, values, strict=True))}
        for size in (1, 2, 3)
        for names in combinations(VALUES, size)
        for values in product(*(VALUES[name] for name in names))
        for state in ("open", "decided", "all")
    ]
    return [filters for number, filters in enumerate(found) if len(filters) < 4 or number % 11 == 0]


def list_pages(queue: ReviewQueue, queue_filter: QueueFilter, *, limit: int) -> list[str]:
    ids: list[str] = []
    after = None
    with queue.file.read_transaction() as db:
        while True:
            numbers = select_page(db, queue_filter, limit=limit, after=after, now=NOW.timestamp())
            query = "SELECT rank, tie, dataset, id FROM items WHERE no = ?"
            positions = [QueuePosition(*db.execute(query, (number,)).fetchone()) for number in numbers[:limit]]
            ids += [position.id for position in positions]
            if len(numbers) <= limit:
                return ids
            after = positions[-1].to_cursor()


@pytest.mark.parametrize("way", WAYS)
def test_filters_select_what_a_look_at_each_item_selects(
    drawn: tuple[QueueHarness, list[dict[str, Any]]], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, items = drawn
    for name, value in WAYS[way].items():
        monkeypatch.setattr(f"service.review.queue.{name}", value)
    for number, filters in enumerate(list_combinations()):
        queue_filter = QueueFilter(dataset=(None, "default")[number % 2], **filters)  # type: ignore[arg-type]
        expected = [item["id"] for item in items if matches(item, filters)]
        assert list_pages(harness.queue, queue_filter, limit=50) == expected, filters
        assert harness.queue.count_matching(queue_filter, now=NOW) == len(expected), filters


# -- signatures --------------------------------------------------------------------------------------------------------


def test_an_item_passes_the_tests_of_all_its_facets() -> None:
    labels = ("B-PER", "PER", "B-B-X", "E-MAIL", "O", "日本", "")
    facets = [encode_facet(name, label) for name in ("given", "suggested", "annotator", "batch") for label in labels]
    facets += [encode_facet("pair", *pair) for pair in product(labels, labels)]
    facets += [encode_facet("kind", kind) for kind in KINDS] + [encode_facet("task", "argilla", "7")]
    facets += [encode_facet("model", "default"), encode_facet("types", "PER", "O")]
    for first, second in combinations(facets, 2):
        if first.split(",")[0] != second.split(",")[0]:  # an item has one annotator
            signature = build_signature((first, second))
            assert 0 <= signature < 2**63
            for facet in (first, second):
                mask, bits = build_signature_test(facet)
                assert signature & mask == bits


def test_most_other_items_fail_the_test() -> None:
    signature = build_signature((encode_facet("annotator", "zoe"), encode_facet("kind", "missed")))
    others = [encode_facet("annotator", f"annotator {number}") for number in range(1_000)]
    passed = [
        facet for facet in others if signature & build_signature_test(facet).mask == build_signature_test(facet).bits
    ]
    assert len(passed) < 5
    mask, bits = build_signature_test(encode_facet("kind", "spurious"))
    assert signature & mask != bits


# -- the rows that are read --------------------------------------------------------------------------------------------


@pytest.fixture
def crossed(harness: QueueHarness) -> QueueHarness:
    """2,000 items: one half has an annotator, the other half a model; 100 have a batch, 200 of the others a label."""
    harness.write(
        *(
            make_scored_output(
                f"s{number:04}",
                0.9 * ((number * 0.618) % 1.0),
                annotator=f"ann-{number % 2}",
                model={"name": f"model-{number % 2}", "fingerprint": "f00d"},
                batch="small" if number % 20 == 0 else None,
                labels=("O", "B-LOC" if number % 20 in (1, 2) else "B-PER", "O"),
                tokens=("the", "odd" if number % 2 else "even", "end"),
            )
            for number in range(N_CROSSED)
        )
    )
    return harness


def count_steps(queue: ReviewQueue, read: Callable[[sqlite3.Connection], object]) -> int:
    """The steps that SQLite's virtual machine takes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with queue.file.read_transaction() as db:
        db.set_progress_handler(count, 1)
        try:
            read(db)
        finally:
            db.set_progress_handler(None, 0)
    return steps


def count_page_steps(queue: ReviewQueue, **filters: Any) -> int:
    return count_steps(queue, lambda db: select_page(db, QueueFilter(**filters), limit=50, now=0.0))


@pytest.mark.parametrize("state", ["open", "all"])
def test_filters_are_checked_in_the_index_without_a_lookup(
    crossed: QueueHarness, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most a few steps for each item: half of all items have the annotator and half the model, none has both."""
    monkeypatch.setattr("service.review.queue.criteria.MAX_RARE_ITEMS", 10)
    monkeypatch.setattr("service.review.queue.criteria.MAX_JOINED_ITEMS", 10)
    steps = count_page_steps(crossed.queue, dataset="default", annotator="ann-0", model="model-1", state=state)
    assert N_CROSSED < steps < 8 * N_CROSSED


def test_of_two_filters_the_rarer_is_looked_up_where_few_items_have_both(
    crossed: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.review.queue.criteria.MAX_RARE_ITEMS", 10)
    filters = {"dataset": "default", "batch": "small", "given": "LOC"}
    _, [*_, in_order, last] = trace_page(crossed.queue, **filters)
    assert "CROSS JOIN" not in in_order, "the queue is read in its order at first"
    assert "CROSS JOIN" in last, "its steps are limited"
    monkeypatch.setattr("service.review.queue.filters.READ_STEPS", 10**6)
    assert trace_page(crossed.queue, **filters)[1][-1] == in_order


def test_a_page_of_all_states_is_read_from_the_index(crossed: QueueHarness) -> None:
    assert count_page_steps(crossed.queue, dataset="default", state="all") < N_CROSSED


def test_a_word_of_many_items_is_looked_up_in_the_items_of_the_page(
    crossed: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.review.queue.criteria.MAX_RARE_ITEMS", 10)
    monkeypatch.setattr("service.review.queue.word_search.SAMPLE_SIZE", 10)
    assert count_page_steps(crossed.queue, dataset="default", q="the") < 3 * N_CROSSED


def trace_page(queue: ReviewQueue, **filters: Any) -> tuple[list[int], list[str]]:
    """The numbers of a page, and the statements that SQLite runs for it."""
    statements: list[str] = []
    with queue.file.read_transaction() as db:
        db.set_trace_callback(statements.append)
        try:
            numbers = select_page(db, QueueFilter(**filters), limit=50, now=0.0)
        finally:
            db.set_trace_callback(None)
    return numbers, statements


def count_lookups(statements: list[str]) -> int:
    """How often words are looked up in a single item."""
    return sum("MATCH" in statement and "rowid = " in statement for statement in statements)


@pytest.fixture
def sampled(crossed: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> QueueHarness:
    """No word is rare, and the table is large enough for a sample."""
    monkeypatch.setattr("service.review.queue.criteria.MAX_RARE_ITEMS", 10)
    monkeypatch.setattr("service.review.queue.word_search.SAMPLE_SIZE", 10)
    return crossed


@pytest.mark.parametrize(
    "filters",
    [
        {"q": "the"},
        {"q": "the end"},
        {"q": '"the*"'},
        {"phrases": (("the", '"'), ("end",))},
        {"phrases": (("the", "odd"),)},
    ],
)
def test_one_or_two_whole_words_are_looked_up_item_by_item(sampled: QueueHarness, filters: dict[str, Any]) -> None:
    numbers, statements = trace_page(sampled.queue, dataset="default", **filters)
    assert len(numbers) == 51
    assert count_lookups(statements) >= 51


@pytest.mark.parametrize(
    "filters",
    [
        {"q": "t*"},
        {"q": 'the "en"*'},
        {"q": "the end the"},
        {"q": "the-even-end"},
        {"phrases": (("even",), ("odd",), ('"', "end"))},
    ],
)
def test_a_prefix_or_three_words_are_read_once_for_all_items(sampled: QueueHarness, filters: dict[str, Any]) -> None:
    """A lookup of a prefix reads the items of all words that begin with it: as much as to read all matches."""
    _, statements = trace_page(sampled.queue, dataset="default", **filters)
    assert count_lookups(statements) == 0
    assert not any("BETWEEN" in statement for statement in statements)  # nor is a sample of them looked up


def test_lookups_of_words_end_when_their_time_is_up(sampled: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = trace_page(sampled.queue, dataset="default", q="the")
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", count(step=0.01).__next__)  # a lookup takes 10 ms
        numbers, statements = trace_page(sampled.queue, dataset="default", q="the")
    assert numbers == expected
    assert 1 < count_lookups(statements) < 10


# -- a limit of steps --------------------------------------------------------------------------------------------------

NUMBERS: Final = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 500) SELECT count(*) FROM n"
OTHER_NUMBERS: Final = NUMBERS.replace("count(*)", "sum(x)")


def test_the_limit_of_steps_is_of_one_block_and_not_of_all_runs_of_a_statement(harness: QueueHarness) -> None:
    steps = count_steps(harness.queue, lambda db: db.execute(NUMBERS).fetchone())
    with harness.queue.file.read_transaction() as db:
        for _ in range(10):
            with limit_steps(db, steps * 8 // 5):
                assert db.execute(NUMBERS).fetchone() == (500,)


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.9])
def test_a_query_of_more_steps_is_interrupted_each_time(harness: QueueHarness, share: float) -> None:
    steps = count_steps(harness.queue, lambda db: db.execute(NUMBERS).fetchone())
    with harness.queue.file.read_transaction() as db:
        for _ in range(10):
            with pytest.raises(TooManyStepsError), limit_steps(db, int(steps * share)):
                db.execute(NUMBERS).fetchone()


def test_the_queries_of_a_block_share_its_limit_of_steps(harness: QueueHarness) -> None:
    steps = count_steps(harness.queue, lambda db: db.execute(NUMBERS).fetchone())
    with harness.queue.file.read_transaction() as db:
        for _ in range(10):
            with pytest.raises(TooManyStepsError), limit_steps(db, steps * 8 // 5):
                list(merge(*(db.execute(query) for query in (NUMBERS, OTHER_NUMBERS))))


def test_a_page_is_read_in_the_same_way_each_time(crossed: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the steps that are allowed, the page takes five of eight."""
    filters = {"dataset": "default", "batch": "small", "model": "model-0"}
    monkeypatch.setattr("service.review.queue.criteria.MAX_RARE_ITEMS", 10)
    with monkeypatch.context() as patch:
        patch.setattr("service.review.queue.criteria.MAX_JOINED_ITEMS", -1)
        steps = count_page_steps(crossed.queue, **filters)
    monkeypatch.setattr("service.review.queue.filters.READ_STEPS", steps * 8 // 5 // 100)  # 100 items have the batch
    first, *others = (trace_page(crossed.queue, **filters) for _ in range(10))
    assert others == [first] * 9
