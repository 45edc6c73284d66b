"""Memory: what it costs beside inference and in the state, and what it finds.

What it finds is measured only if LABELWATCH_CONLL names the folder of CoNLL-2003: on dev with planted errors, and on test
with the corrected labels, in file order, shuffled, and over 4 and 12 partitions keyed by id and by document. The files
have no documents, so DOCUMENT_SENTENCES sentences in a row stand for one. Nothing is chosen by these figures.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from service.contracts import DatasetSettings
from service.errors import LabelwatchError
from service.evaluation.data import UNMERGED, Variant
from service.evaluation.from_model import build_evaluation_data
from service.evaluation.metrics import compute_all_metrics
from service.evaluation.runs import compute_memory_priority, judge_stream
from service.formats import read_sentences
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.labels import Scheme, parse_spans
from service.scoring.flat import FlatSentences, segment_min
from service.statistics.memory.memory import FORM_GENERATION, Memory
from service.statistics.memory.snapshot import write_history, write_recent
from tests.bench.pipeline import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from service.contracts import LabelledSentence
    from service.judging.types import Observation

CONLL_VARIABLE = "LABELWATCH_CONLL"
ROUNDS = 5
COST_SENTENCES = 1_000
GOAL_SHARE = 0.08  # of one-thread inference
SEEDS = range(3)
PLANTED_SHARE = 0.13  # of sentences: priority without memory then has an AUPRC of about .87
BLOCK_SENTENCES = 30
DOCUMENT_SENTENCES = 15
PARTITIONS = (4, 12)


def run() -> list[dict[str, Any]]:
    folder = ModelFolder.load(find_default_model())
    classifier = Classifier(folder, threads=1)
    named = os.environ.get(CONLL_VARIABLE)
    sentences = list(read_sentences(Path(named) / "dev.tsv" if named else SAMPLE))
    results = measure_cost(folder, classifier, sentences[:COST_SENTENCES])
    if named:
        results += [
            measure_planted(build_variant(classifier, sentences, sentences)),
            measure_conll(build_variant(classifier, *(read_conll(named, name) for name in ("test", "test.corrected")))),
        ]
    return results


def read_conll(folder: str, name: str) -> list[LabelledSentence]:
    return list(read_sentences(Path(folder) / f"{name}.tsv"))


def build_variant(
    classifier: Classifier, given: Sequence[LabelledSentence], corrected: Sequence[LabelledSentence]
) -> Variant:
    results = classifier.infer_stream(sentence.tokens for sentence in given)
    return build_evaluation_data(classifier.folder, given, corrected, results, name="").build_variant(UNMERGED)


# -- cost --------------------------------------------------------------------------------------------------------------


def measure_cost(
    folder: ModelFolder, classifier: Classifier, sentences: Sequence[LabelledSentence]
) -> list[dict[str, Any]]:
    judge = Judge(folder, DatasetSettings())
    tokens = [sentence.tokens for sentence in sentences]
    observations = []
    for sentence, words in zip(sentences, classifier.infer(tokens), strict=True):
        if isinstance(words, LabelwatchError):
            raise words
        assert isinstance(words, WordProbs)
        observations.append(judge.observe(sentence, words))
    seconds: dict[str, list[float]] = {"inference": [], "memory": [], "records": []}
    for _ in range(ROUNDS):
        seconds["inference"].append(measure_cpu_seconds(lambda: classifier.infer(tokens)))
        seconds["memory"].append(measure_cpu_seconds(lambda: judge_all(judge, observations)))
        seconds["records"].append(measure_cpu_seconds(lambda: write_all(judge, observations)) - seconds["memory"][-1])
    micros = {name: 1e6 * statistics.median(each) / len(sentences) for name, each in seconds.items()}
    recent, history = measure_record_bytes(judge, observations)
    return [
        {
            "name": "memory_vs_inference",
            "ratio": micros["memory"] / micros["inference"],
            "detail": {
                "what": "judging and learning with memory over one-thread inference, the same sentences; lower is better",
                "goal": GOAL_SHARE,
                "microseconds_per_sentence": micros,
                "sentences": len(sentences),
                "rounds": ROUNDS,
            },
        },
        {
            "name": "memory_record_kilobytes",
            "ratio": recent / 1e3,
            "detail": {
                "what": "kilobytes of memory that a commit writes to the state topic, without the history",
                "history_kilobytes": history / 1e3,
                "history_kilobytes_per_sentence": history / 1e3 / FORM_GENERATION,
                "sentences": len(sentences),
            },
        },
    ]


def measure_cpu_seconds(work: Callable[[], object]) -> float:
    """Other processes share the machine, and inference has one thread."""
    started = time.process_time()
    work()
    return time.process_time() - started


def judge_all(judge: Judge, observations: Sequence[Observation]) -> None:
    for _ in iterate_memories(judge, observations):
        pass


def write_all(judge: Judge, observations: Sequence[Observation]) -> None:
    """As a worker that commits once per generation."""
    for count, memory in enumerate(iterate_memories(judge, observations), 1):
        if count % FORM_GENERATION == 0:
            encode_memory(memory)


def iterate_memories(judge: Judge, observations: Sequence[Observation]) -> Iterator[Memory]:
    """What memory adds to judging and learning a sentence, one after the other."""
    weights = judge.build_threshold_set(judge.create_empty_stats()).weights
    memory: Memory | None = None
    for observation in observations:
        memory = judge.memory.prepare(memory, observation.sentence)
        assert memory is not None
        evidence = judge.memory.gather(observation, [memory])
        if evidence is not None:
            evidence.compute_priorities(weights)
            evidence.teach(memory, judge.memory.types)
        yield memory


def encode_memory(memory: Memory) -> tuple[int, int]:
    """Bytes of both records."""
    history = b"" if memory.history is None else json.dumps(write_history(memory.history)).encode()
    return len(json.dumps(write_recent(memory)).encode()), len(history)


def measure_record_bytes(judge: Judge, observations: Sequence[Observation]) -> tuple[float, float]:
    """The mean over commits of the record that is always written, and the last history."""
    sizes = [encode_memory(memory) for memory in iterate_memories(judge, observations)]
    return statistics.mean(recent for recent, _ in sizes[FORM_GENERATION:] or sizes), sizes[-1][1]


# -- what it finds -----------------------------------------------------------------------------------------------------


def measure_conll(variant: Variant) -> dict[str, Any]:
    n_sentences = variant.flat.n_sentences
    shuffled = np.random.default_rng(0).permutation(n_sentences).tolist()
    table = {"one partition, file order": measure_modes(variant), "shuffled": measure_modes(variant, order=shuffled)}
    ids = np.random.default_rng(1).integers(0, 2**31, n_sentences)
    documents = np.random.default_rng(2).integers(0, 2**31, n_sentences // DOCUMENT_SENTENCES + 1)
    for count in PARTITIONS:
        by_document = documents[np.arange(n_sentences) // DOCUMENT_SENTENCES] % count
        table[f"{count} partitions, keyed by id"] = measure_modes(variant, partitions=(ids % count).tolist())
        table[f"{count} partitions, keyed by document"] = measure_modes(variant, partitions=by_document.tolist())
    print_table("CoNLL-2003 test", table)
    gain = table["one partition, file order"]["auto"][0] - table["one partition, file order"]["off"][0]
    what = "AUPRC of priority with memory minus that without, CoNLL-2003 test in file order"
    return {"name": "memory_conll_gain", "ratio": gain, "detail": {"what": what, "auprc_and_auroc": table}}


def measure_planted(variant: Variant) -> dict[str, Any]:
    """The truth of dev is its given labels, which have errors too: those that memory finds count against it."""
    table: dict[str, dict[str, tuple[float, float]]] = {}
    for name, plant in (("independent", plant_independent), ("blocks", plant_blocks)):
        rows = [measure_modes(plant(variant, np.random.default_rng(seed))) for seed in SEEDS]
        table[name] = {
            mode: (statistics.mean(row[mode][0] for row in rows), statistics.mean(row[mode][1] for row in rows))
            for mode in rows[0]
        }
    print_table("CoNLL-2003 dev with planted errors", table)
    loss = max(row["off"][0] - row["auto"][0] for row in table.values())
    what = "largest loss of AUPRC by memory over kinds of planted errors; lower is better"
    return {"name": "memory_planted_loss", "ratio": loss, "detail": {"what": what, "goal": 0.02, "table": table}}


def measure_modes(
    variant: Variant, *, order: Sequence[int] | None = None, partitions: Sequence[int] | None = None
) -> dict[str, tuple[float, float]]:
    """AUPRC and AUROC without memory and with each mode."""
    words = {"off": _judge_in_order(variant, order)}
    words |= {
        mode: compute_memory_priority(variant, mode, order=order, partitions=partitions)
        for mode in ("auto", "documents")
    }
    metrics = {
        mode: compute_all_metrics(segment_min(priority, variant.flat), variant.wrong_sentences)
        for mode, priority in words.items()
    }
    return {mode: (found["auprc"], found["auroc"]) for mode, found in metrics.items()}


def _judge_in_order(variant: Variant, order: Sequence[int] | None) -> NDArray[np.float64]:
    if order is None:
        return judge_stream(variant, memory="off").word_priority
    flat = variant.flat
    rows = [np.arange(flat.starts[sentence], flat.ends[sentence]) for sentence in order]
    index, lengths = np.concatenate(rows), np.array([len(each) for each in rows])
    moved = FlatSentences(flat.probs[index], flat.given[index], np.cumsum(lengths) - lengths)
    priority = np.empty(flat.n_words)
    priority[index] = judge_stream(
        Variant(variant.name, variant.classes, moved, variant.corrected[index]), memory="off"
    ).word_priority
    return priority


def plant_independent(variant: Variant, rng: np.random.Generator) -> Variant:
    """One entity of PLANTED_SHARE of the sentences has another type, or none."""
    given = variant.corrected.copy()
    types = _list_types(variant)
    for sentence in np.flatnonzero(rng.random(variant.flat.n_sentences) < PLANTED_SHARE).tolist():
        spans = _find_spans(variant, sentence)
        if spans:
            start, end, name = spans[rng.integers(len(spans))]
            others = [other for other in (*types, "") if other != name]
            _relabel(variant, given, (start, end), others[rng.integers(len(others))])
    return _with_given(variant, given)


def plant_blocks(variant: Variant, rng: np.random.Generator) -> Variant:
    """In some blocks of 30 sentences one type is called another throughout."""
    given = variant.corrected.copy()
    types = _list_types(variant)
    n_blocks = variant.flat.n_sentences // BLOCK_SENTENCES
    for block in np.flatnonzero(rng.random(n_blocks) < 2 * PLANTED_SHARE).tolist():
        wrong, called = rng.choice(types, 2, replace=False).tolist()
        for sentence in range(block * BLOCK_SENTENCES, (block + 1) * BLOCK_SENTENCES):
            for start, end, name in _find_spans(variant, sentence):
                if name == wrong:
                    _relabel(variant, given, (start, end), called)
    return _with_given(variant, given)


def _list_types(variant: Variant) -> list[str]:
    return sorted({name[2:] for name in variant.classes if name != "O"})


def _find_spans(variant: Variant, sentence: int) -> list[tuple[int, int, str]]:
    """First word, end and type of the true entities; words are counted over all sentences."""
    start, end = int(variant.flat.starts[sentence]), int(variant.flat.ends[sentence])
    labels = [variant.classes[k] for k in variant.corrected[start:end]]
    return [(start + span.start, start + span.end, span.type) for span in parse_spans(labels, Scheme.IOB2)]


def _relabel(variant: Variant, given: NDArray[np.intp], words: tuple[int, int], name: str) -> None:
    for word in range(*words):
        prefix = "B" if word == words[0] else "I"
        given[word] = variant.classes.index(f"{prefix}-{name}" if name else "O")


def _with_given(variant: Variant, given: NDArray[np.intp]) -> Variant:
    flat = FlatSentences(variant.flat.probs, given, variant.flat.starts)
    return Variant(variant.name, variant.classes, flat, variant.corrected, variant.held_out, variant.words)


def print_table(title: str, table: dict[str, dict[str, tuple[float, float]]]) -> None:
    print(f"{title}: AUPRC / AUROC of priority", file=sys.stderr)
    for name, row in table.items():
        cells = "   ".join(f"{mode} {auprc:.3f}/{auroc:.3f}" for mode, (auprc, auroc) in row.items())
        print(f"  {name:<34} {cells}", file=sys.stderr)
