"""Makes a quantised folder whole: runs it over dev through the service's own pipeline, and writes model.json.

    python models/finish.py --folder DIR --data DIR

Dev gives the threshold prior (sums and counts per class, and per merged type) and the figures that choose a model.
The test set is not touched.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

import numpy as np
from corpus import LABELS, Sentence, compute_f1, read_columns
from manifest import NAME, write_manifest
from noise import detection

from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.labels import merge_by_type
from service.scoring.confident import sum_by_class
from service.scoring.flat import merge_classes, merge_labels

VERSIONS = ("onnxruntime", "tokenizers", "numpy", "onnx", "torch", "transformers")


def infer_word_probabilities(folder: Path, sentences: list[Sentence], threads: int) -> list[np.ndarray]:
    classifier = Classifier(ModelFolder.load(folder), threads=threads)
    answers = list(classifier.infer_stream(sentence.words for sentence in sentences))
    wrong = [answer for answer in answers if not isinstance(answer, WordProbs)]
    if wrong:
        raise SystemExit(f"the model fails on {len(wrong)} sentences of dev: {wrong[0]}")
    return [answer.probs for answer in answers if isinstance(answer, WordProbs)]


def compute_class_sums(probs: np.ndarray, given: np.ndarray) -> dict[str, list[float]]:
    sums, counts = sum_by_class(probs, given)
    return {"sums": sums.tolist(), "counts": counts.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="what quantize.py wrote")
    parser.add_argument("--data", type=Path, required=True, help="folder with dev.tsv")
    parser.add_argument("--name", default=NAME, help="the model's name in its manifest")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    dev = read_columns(options.data / "dev.tsv")
    versions = {name: version(name) for name in VERSIONS}
    name = options.name
    write_manifest(options.folder, labels=LABELS, figures={}, held_out=None, versions=versions, name=name)
    answers = infer_word_probabilities(options.folder, dev, options.threads)
    probs = np.concatenate(answers)
    given = np.array([label for sentence in dev for label in sentence.labels])
    _, merge = merge_by_type(LABELS)
    figures = {
        "dev_f1": compute_f1([s.labels for s in dev], [p.argmax(1).tolist() for p in answers]),
        "dev_detection": detection(dev, answers),
    }
    write_manifest(
        options.folder,
        labels=LABELS,
        figures=figures,
        held_out=compute_class_sums(probs, given),
        held_out_types=compute_class_sums(merge_classes(probs, merge), merge_labels(given, merge)),
        versions=versions,
        name=name,
    )
    print(f"{options.folder}: dev F1 {figures['dev_f1']:.4f}, planted errors found {figures['dev_detection']:.4f}")


if __name__ == "__main__":
    main()
