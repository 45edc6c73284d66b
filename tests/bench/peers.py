"""The whole pipeline against what one would put together without labelwatch: transformers' pipeline, then cleanlab.

Same weights (those of the shipped file, multiplied out to fp32 for torch), same sentences, same threads, in turn in one
process. The peer is given its better batch size. It scores and flags everything at the end in one go, which is the
fastest way to use it; ours judges and learns sentence by sentence.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from cleanlab.token_classification import filter as peer_filter
from cleanlab.token_classification import rank as peer_rank
from transformers import PreTrainedTokenizerFast, TokenClassificationPipeline

from models.shipped import load_shipped_model
from service.errors import InferenceError
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.inference.tokenization.word_shape import classify_casing
from tests.bench.pipeline import THREADS, make_pipeline_run, measure_seconds, read_sample, summarize_rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from service.contracts import LabelledSentence

ROUNDS = 3
BATCH_SIZES = (1, 32)
TOLERANCE = 2e-3
# By side: what the name of its figure says, and what is compared. The light model has four layers, the peer's has six.
FIGURES = {
    "fast": ("", "the pipeline (int8) over transformers' pipeline and cleanlab, same weights"),
    "exact": (
        "exact_",
        "the pipeline (fp32, `precision: exact`) over transformers' pipeline and cleanlab, same weights",
    ),
    "light": (
        "light_",
        "the pipeline with the light model over transformers' pipeline and cleanlab with the default one",
    ),
}


class WordPipeline(TokenClassificationPipeline):  # type: ignore[misc]
    """transformers' pipeline over words, answering with all probabilities instead of the best label."""

    def _sanitize_parameters(self, **_: object) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return {}, {}, {}

    def preprocess(self, words: Sequence[str], **_: object) -> Iterator[dict[str, Any]]:
        encoding = self.tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
        places = [-1 if place is None else place for place in encoding.word_ids()]
        shapes = [classify_casing(word) for word in words]
        encoding["token_type_ids"] = torch.tensor([[shapes[p] if p >= 0 else 0 for p in places]])
        yield {**encoding, "is_last": True, "places": places, "n_words": len(words)}

    def _forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        kept = {name: inputs.pop(name) for name in ("is_last", "places", "n_words")}
        return {"logits": self.model(**inputs).logits, **kept}

    def postprocess(self, outputs: Any, **_: object) -> npt.NDArray[np.float64]:
        one = outputs[0] if isinstance(outputs, list) else outputs
        places = np.array(one["places"]).ravel()
        probs = torch.softmax(one["logits"][0], -1).numpy()[: len(places)].astype(np.float64)
        n_words = int(np.ravel(one["n_words"])[0])
        sums, counts = np.zeros((n_words, probs.shape[1])), np.zeros(n_words)
        np.add.at(sums, places[places >= 0], probs[places >= 0])
        np.add.at(counts, places[places >= 0], 1)
        return sums / counts[:, None]


def infer_with_peer(pipeline: WordPipeline, sentences: Sequence[LabelledSentence], batch: int) -> list[Any]:
    # Batches of the pipeline pad what they know; lists of our own can't be padded, so one call a batch, as its docs do
    # for inputs of uneven shape.
    if batch == 1:
        return [pipeline([list(s.tokens)])[0] for s in sentences]
    return infer_with_peer_batched(pipeline, sentences, batch)


def infer_with_peer_batched(pipeline: WordPipeline, sentences: Sequence[LabelledSentence], batch: int) -> list[Any]:
    found = []
    for start in range(0, len(sentences), batch):
        items = [next(iter(pipeline.preprocess(s.tokens))) for s in sentences[start : start + batch]]
        width = max(item["input_ids"].shape[1] for item in items)
        inputs = {
            name: torch.cat([torch.nn.functional.pad(item[name], (0, width - item[name].shape[1])) for item in items])
            for name in ("input_ids", "token_type_ids", "attention_mask")
        }
        with torch.no_grad():
            logits = pipeline.model(**inputs).logits
        found += [pipeline.postprocess({**item, "logits": logits[row : row + 1]}) for row, item in enumerate(items)]
    return found


def run_peer(pipeline: WordPipeline, sentences: Sequence[LabelledSentence], batch: int, labels: Sequence[str]) -> None:
    probs = infer_with_peer(pipeline, sentences, batch)
    given = [[labels.index(label) for label in s.labels] for s in sentences]
    peer_rank.get_label_quality_scores(given, probs)
    peer_filter.find_label_issues(given, probs, n_jobs=1)


def check_same_probs(classifier: Classifier, pipeline: WordPipeline, sentences: Sequence[LabelledSentence]) -> float:
    """Both must compute the same thing, or the comparison is of two models."""
    worst = 0.0
    for sentence, answer in zip(sentences, classifier.infer([s.tokens for s in sentences]), strict=True):
        assert not isinstance(answer, InferenceError)
        worst = max(worst, float(np.abs(infer_with_peer(pipeline, [sentence], 1)[0] - answer.probs).max()))
    if worst > TOLERANCE:
        raise RuntimeError(f"the peer's probabilities differ by {worst:.3g}: not the same weights")
    return worst


def run() -> list[dict[str, Any]]:
    torch.set_num_threads(THREADS)
    folder = ModelFolder.load(find_default_model())
    exact = Classifier(ModelFolder.load(find_default_model(), precision="exact"), threads=THREADS)
    classifier = Classifier(folder, threads=THREADS)
    light = Classifier(ModelFolder.load(folder.path.with_name("light")), threads=THREADS)
    sentences = read_sample()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder.tokenizer), pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )
    pipeline = WordPipeline(
        model=load_shipped_model(folder.path / "model.exact.onnx", folder.labels), tokenizer=tokenizer
    )
    difference = check_same_probs(exact, pipeline, sentences[:50])
    sides = {
        "fast": make_pipeline_run(classifier, sentences),
        "exact": make_pipeline_run(exact, sentences),
        "light": make_pipeline_run(light, sentences),
    }
    times: dict[str, list[float]] = {name: [] for name in (*sides, *(f"peer_{size}" for size in BATCH_SIZES))}
    for _ in range(ROUNDS):
        for name, work in sides.items():
            times[name].append(measure_seconds(work))
        for size in BATCH_SIZES:
            times[f"peer_{size}"].append(measure_seconds(lambda: run_peer(pipeline, sentences, size, folder.labels)))  # noqa: B023
    best = min((f"peer_{size}" for size in BATCH_SIZES), key=lambda name: statistics.median(times[name]))
    shared = {
        "threads": THREADS,
        "rounds": ROUNDS,
        "sentences": len(sentences),
        "largest_difference_to_peer": difference,
        "peer_batch": best,
        "sentences_per_s": {name: summarize_rates(taken, len(sentences)) for name, taken in times.items()},
    }
    return [
        {
            "name": f"pipeline_{place}vs_transformers_cleanlab",
            "ratio": statistics.median(times[best]) / statistics.median(times[side]),
            "detail": {
                "what": f"sentences/s of {what}",
                "ratios": [theirs / ours for theirs, ours in zip(times[best], times[side], strict=True)],
                **shared,
            },
        }
        for side, (place, what) in FIGURES.items()
    ]
