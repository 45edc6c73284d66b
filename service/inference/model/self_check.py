"""Checks a model folder: whether it works, how fast it is, and whether its outputs depend on the batch."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import InferenceError, ModelError
from service.inference.classifier import Classifier
from service.inference.graph_runner import MAX_BATCH_DEVIATION
from service.inference.model.folder import ModelFolder
from service.inference.providers import CPU_ONLY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.inference.graph_runner import Batching
    from service.inference.model.manifest import Precision

_SAMPLE_TEXT = (
    "The harbour of Lisbon was closed on Monday after Ana Ferreira , who runs the port for Norvik Lines , said that 14 "
    "ships had asked for shelter ; by 6.30 p.m. none of them had left ( the storm reached Porto in the night ) ."
)
_N_SENTENCES = 64
_MIN_DURATION_S = 0.5


@dataclass(frozen=True, slots=True)
class ModelCheckReport:
    """The report about a folder that works."""

    folder: ModelFolder
    sentences_per_second: float
    words_per_sentence: float
    threads: int
    batch_deviation: float
    batching: Batching

    @property
    def is_batch_invariant(self) -> bool:
        return self.batching == "planned"

    def to_text(self) -> str:
        """The report for people, one line per finding."""
        folder = self.folder
        allowed = "to the bit" if folder.exactly_invariant else f"up to {MAX_BATCH_DEVIATION:g}"
        verdict = (
            f"yes (largest change {self.batch_deviation:.2g}, allowed {allowed})"
            if self.is_batch_invariant
            else f"NO (probabilities move by {self.batch_deviation:.2g}, allowed {allowed}): every sentence is run alone"
        )
        prior = "yes" if folder.held_out else "no: thresholds start from the data alone"
        lines = {
            "model": f"{folder.name}, {folder.precision}, {folder.graph}",
            "fingerprint": folder.fingerprint,
            "classes": f"{len(folder.labels)}: {' '.join(folder.labels)}",
            "scheme": folder.scheme.value,
            "reads": f"{folder.max_length} subwords at a time, joined as {folder.joining}"
            + (", with casing classes" if folder.casing_classes else ""),
            "pooling": folder.pooling,
            "threshold prior": prior,
            "invariant": verdict,
            "speed": f"{self.sentences_per_second:.0f} sentences/s of {self.words_per_sentence:.0f} words, "
            f"{self.threads} thread{'s' if self.threads > 1 else ''}",
        }
        width = max(map(len, lines))
        return "\n".join([*(f"{key:<{width}}  {value}" for key, value in lines.items()), "The folder works."])


def check_model_folder(
    path: Path, *, precision: Precision = "fast", threads: int = 1, providers: Sequence[str] = CPU_ONLY
) -> ModelCheckReport:
    """Loads and runs the model. A broken one is a ModelError."""
    folder = ModelFolder.load(path, precision=precision)
    classifier = Classifier(folder, threads=threads, providers=providers)
    rng, words = random.Random(0), _SAMPLE_TEXT.split()
    sentences = [[rng.choice(words) for _ in range(rng.randint(4, 25))] for _ in range(_N_SENTENCES)]
    n_scored, started = 0, time.perf_counter()
    while n_scored == 0 or time.perf_counter() - started < _MIN_DURATION_S:
        results = classifier.infer(sentences)
        error = next((result for result in results if isinstance(result, InferenceError)), None)
        if error is not None:
            raise ModelError(f"{folder.graph} fails on an ordinary sentence: {error}")
        n_scored += len(sentences)
    return ModelCheckReport(
        folder=folder,
        sentences_per_second=n_scored / (time.perf_counter() - started),
        words_per_sentence=sum(map(len, sentences)) / len(sentences),
        threads=threads,
        batch_deviation=0.0 if classifier.batch_deviation is None else classifier.batch_deviation,
        batching=classifier.batching,
    )
