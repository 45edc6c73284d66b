"""Training a model on 1,000 sentences, against one inference pass over the same sentences with the model it gives."""

from __future__ import annotations

import tempfile
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
    from service.contracts import LabelledSentence

SENTENCES = 1000
THREADS = 2


def read_varied_sample() -> list[LabelledSentence]:
    """The sample, repeated. Each repetition ends with another number: equal sentences would count once."""
    sample = list(read_sentences(SAMPLE))
    copies = [
        sentence.model_copy(
            update={"tokens": (*sentence.tokens, str(copy)), "labels": (*sentence.labels, "O"), "id": f"{copy}-{index}"}
        )
        for copy in range(-(-SENTENCES // len(sample)))
        for index, sentence in enumerate(sample)
    ]
    return copies[:SENTENCES]


def run() -> list[dict[str, Any]]:
    sentences = read_varied_sample()
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
            "detail": {**detail, "what": "seconds to train on 1,000 sentences with the encoder, on this machine"},
        },
        {
            "name": "train_vs_inference",
            "ratio": training / inference,
            "detail": {**detail, "what": "training over one inference pass with the trained model, same sentences"},
        },
    ]
