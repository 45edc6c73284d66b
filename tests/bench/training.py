"""Training a model on 5,000 sentences, against one inference pass over the same sentences with the model it gives; and
how the memory of training grows with the number of sentences.
"""

from __future__ import annotations

import tempfile
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_encoder
from service.inference.model.encoder_folder import EncoderFolder
from service.inference.model.folder import ModelFolder
from service.labels import Scheme
from service.training.sentences import collect_sentences
from service.training.trainer import train_model
from tests.bench.pipeline import SAMPLE, measure_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.contracts import LabelledSentence

SENTENCES = 5000
THREADS = 2
# Both are more than training draws from: it stops at MAX_TRAINING_WORDS.
FEW_SENTENCES, MANY_SENTENCES = 50_000, 500_000


def iter_varied_sample() -> Iterator[LabelledSentence]:
    """The sample, repeated for ever. Each repetition ends with another number: equal sentences would count once."""
    sample = list(read_sentences(SAMPLE))
    for index, sentence in enumerate(cycle(sample)):
        yield sentence.model_copy(
            update={
                "tokens": (*sentence.tokens, str(index // len(sample))),
                "labels": (*sentence.labels, "O"),
                "id": str(index),
            }
        )


def measure_peak_memory(n_sentences: int) -> int:
    """Trains on hashed features alone; the bytes that the process took at most. Runs in a process of its own."""
    data = collect_sentences(islice(iter_varied_sample(), n_sentences), Scheme.IOB2)
    with tempfile.TemporaryDirectory() as scratch:
        train_model(data, Path(scratch) / "model", name="bench", encoder=None, threads=THREADS)
    # Not ru_maxrss: a process starts with the peak of the one that started it.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


def measure_memory() -> dict[str, Any]:
    context = get_context("spawn")
    peaks = []
    for count in (FEW_SENTENCES, MANY_SENTENCES):
        with context.Pool(1) as pool:
            peaks.append(pool.apply(measure_peak_memory, (count,)))
    return {
        "name": "train_memory_500k_vs_50k",
        "ratio": peaks[1] / peaks[0],
        "detail": {"bytes": peaks, "what": "peak memory of training on 500,000 sentences over that on 50,000"},
    }


def run() -> list[dict[str, Any]]:
    sentences = list(islice(iter_varied_sample(), SENTENCES))
    data = collect_sentences(sentences, Scheme.IOB2)
    encoder = EncoderFolder.load(find_default_encoder())
    words = [sentence.tokens for sentence in sentences]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "model"
        training = measure_seconds(lambda: train_model(data, out, name="bench", encoder=encoder, threads=THREADS))
        classifier = Classifier(ModelFolder.load(out), threads=THREADS)
        classifier.infer(words[:50])
        inference = measure_seconds(lambda: classifier.infer(words))
    detail = {"sentences": len(sentences), "words": len(data.given), "seconds": training, "inference": inference}
    return [
        {
            "name": "train_seconds_per_1000",
            "ratio": training * 1000 / len(sentences),
            "detail": {**detail, "what": "seconds per 1,000 of 5,000 sentences, with the encoder, on this machine"},
        },
        {
            "name": "train_vs_inference",
            "ratio": training / inference,
            "detail": {**detail, "what": "training over one inference pass with the trained model, same sentences"},
        },
        measure_memory(),
    ]
