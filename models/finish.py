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
from corpus import LABELS, Sentence, f1, read_columns
from manifest import write_manifest
from noise import detection

from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.labels import merged_classes
from service.scoring.confident import class_sums
from service.scoring.flat import merge_classes, merge_labels

VERSIONS = ("onnxruntime", "tokenizers", "numpy", "onnx", "torch", "transformers")


def word_probabilities(folder: Path, sentences: list[Sentence], threads: int) -> list[np.ndarray]:
    classifier = Classifier(ModelFolder.load(folder), threads=threads)
    answers = list(classifier.infer_stream(sentence.words for sentence in sentences))
    wrong = [answer for answer in answers if not isinstance(answer, WordProbs)]
    if wrong:
        raise SystemExit(f"the model fails on {len(wrong)} sentences of dev: {wrong[0]}")
    return [answer.probs for answer in answers if isinstance(answer, WordProbs)]


def sums_of(probs: np.ndarray, given: np.ndarray) -> dict[str, list[float]]:
    sums, counts = class_sums(probs, given)
    return {"sums": sums.tolist(), "counts": counts.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="what quantize.py wrote")
    parser.add_argument("--data", type=Path, required=True, help="folder with dev.tsv")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    dev = read_columns(options.data / "dev.tsv")
    versions = {name: version(name) for name in VERSIONS}
    write_manifest(options.folder, labels=LABELS, figures={}, held_out=None, versions=versions)
    answers = word_probabilities(options.folder, dev, options.threads)
    probs = np.concatenate(answers)
    given = np.array([label for sentence in dev for label in sentence.labels])
    _, merge = merged_classes(LABELS)
    figures = {
        "dev_f1": f1([s.labels for s in dev], [p.argmax(1).tolist() for p in answers]),
        "dev_detection": detection(dev, answers),
    }
    write_manifest(
        options.folder,
        labels=LABELS,
        figures=figures,
        held_out=sums_of(probs, given),
        held_out_types=sums_of(merge_classes(probs, merge), merge_labels(given, merge)),
        versions=versions,
    )
    print(f"{options.folder}: dev F1 {figures['dev_f1']:.4f}, planted errors found {figures['dev_detection']:.4f}")


if __name__ == "__main__":
    main()
