"""The whole pipeline against the limit that onnxruntime sets: the graph alone, fed as well as it can be."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from service.contracts import DatasetSettings, LabelledSentence
from service.errors import InferenceError
from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from tests.support.one_pass import OnePass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

ROUNDS = 5
COPIES = 2
BATCH_SIZES = (4, 8, 16, 32)
THREADS = 1
SAMPLE = Path("models/sample/sample.tsv")

Feeds = dict[str, "npt.NDArray[np.int64]"]


def read_sample() -> list[LabelledSentence]:
    return list(read_sentences(SAMPLE)) * COPIES


def measure_seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def summarize_rates(seconds: Sequence[float], sentences: int) -> dict[str, float]:
    rates = sorted(sentences / each for each in seconds)
    return {"median": statistics.median(rates), "least": rates[0], "most": rates[-1]}


def open_session(folder: ModelFolder, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if folder.ort_level == "basic":
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(str(folder.graph), options, providers=["CPUExecutionProvider"])


def make_sorted_batches(classifier: Classifier, sentences: Sequence[LabelledSentence], size: int) -> list[Feeds]:
    """Everything tokenised beforehand and sorted by length over the whole corpus: nobody can do that in a stream."""
    windows = [window for each in classifier.encode([s.tokens for s in sentences]) for window in each.windows]
    windows.sort(key=lambda window: len(window.ids))
    batches = []
    for start in range(0, len(windows), size):
        chosen = windows[start : start + size]
        width = max(len(window.ids) for window in chosen)
        feeds = {name: np.zeros((len(chosen), width), np.int64) for name in ("input_ids", "token_type_ids")}
        mask = np.zeros((len(chosen), width), np.int64)
        for row, window in enumerate(chosen):
            feeds["input_ids"][row, : len(window.ids)] = window.ids
            mask[row, : len(window.ids)] = 1
            if window.token_types is not None:
                feeds["token_type_ids"][row, : len(window.ids)] = window.token_types
        batches.append({**feeds, "attention_mask": mask})
    return batches


def make_raw_run(session: ort.InferenceSession, batches: Sequence[Feeds]) -> Callable[[], None]:
    names = {each.name for each in session.get_inputs()}
    chosen = [{name: value for name, value in feeds.items() if name in names} for feeds in batches]

    def run() -> None:
        for feeds in chosen:
            session.run(None, feeds)

    return run


def make_pipeline_run(classifier: Classifier, sentences: Sequence[LabelledSentence]) -> Callable[[], None]:
    """Words in, assessments out: tokenise, infer, pool, judge with the running thresholds and with memory, learn."""
    judge = Judge(classifier.folder, DatasetSettings())

    def run() -> None:
        one_pass = OnePass(judge)
        for sentence, words in zip(sentences, classifier.infer_stream(s.tokens for s in sentences), strict=True):
            assert not isinstance(words, InferenceError)
            one_pass.add(sentence, words)

    return run


def run() -> list[dict[str, Any]]:
    folder = ModelFolder.load(find_default_model())
    classifier = Classifier(folder, threads=THREADS)
    sentences = read_sample()
    session = open_session(folder, THREADS)
    raw = {size: make_raw_run(session, make_sorted_batches(classifier, sentences, size)) for size in BATCH_SIZES}
    ours = make_pipeline_run(classifier, sentences)
    for warm_up in (*raw.values(), ours):
        warm_up()
    raw_times: dict[int, list[float]] = {size: [] for size in BATCH_SIZES}
    our_times: list[float] = []
    for _ in range(ROUNDS):
        our_times.append(measure_seconds(ours))
        for size, work in raw.items():
            raw_times[size].append(measure_seconds(work))
    best = min(BATCH_SIZES, key=lambda size: statistics.median(raw_times[size]))
    ratio = statistics.median(raw_times[best]) / statistics.median(our_times)
    return [
        {
            "name": "pipeline_vs_raw_ort",
            "ratio": ratio,
            "detail": {
                "what": "sentences/s of tokenise, infer, pool, judge and learn over the graph alone, pre-tokenised and sorted",
                "threads": THREADS,
                "sentences": len(sentences),
                "rounds": ROUNDS,
                "ratios": [limit / took for limit, took in zip(raw_times[best], our_times, strict=True)],
                "best_batch_size": best,
                "pipeline_sentences_per_s": summarize_rates(our_times, len(sentences)),
                "raw_sentences_per_s": summarize_rates(raw_times[best], len(sentences)),
            },
        }
    ]
