"""Makes the two int8 graphs of a fp32 folder, over one file of weights, and checks them.

    python models/quantize.py --fp32 DIR --data DIR --out DIR

Weights are int8 within ±63, one scale a column. Two things bring the answers nearer to fp32 without costing any time:
the mean of what goes into a layer is taken out (layer norms' and linear layers' biases absorb it), which leaves
smaller numbers to round; and each row of a matrix is rounded so as to make up for the error of those before it
(GPTQ: Frantar et al., arXiv 2210.17323). Both look at training sentences, and so do the ranges of the activations.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from activations import iter_activations, measure_ranges
from arithmetic import MAX_WEIGHT
from graphs import LAYER_MATRICES, ModelSizes, Tensors, assemble_model, build_graph, read_fused_weights
from manifest import FILES, MAX_LENGTH
from verify import load_encoded_sentences, verify
from weights_file import multiply_out, write_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx
    from arithmetic import ActivationRange
    from tokenized import TokenizedSentence

EMBEDDING_LIMIT = 127  # looked up and multiplied out in fp32, so nothing can saturate
DAMPING = 0.01
BLOCK = 64


def recentre(sizes: ModelSizes, tensors: Tensors, sentences: Sequence[TokenizedSentence]) -> Tensors:
    """The same model, its layer norms answering with the mean taken out.

    The layers that read them make up for it in their biases, and so does the sum that goes past them.
    """
    sums: dict[str, np.ndarray] = {}
    rows = 0
    for values in iter_activations(sizes, tensors, sentences):
        rows += len(values["layer.0.query"])
        for name in values:
            if name.endswith((".query", ".inner")):
                sums[name] = sums.get(name, 0) + values[name].sum(0, dtype=np.float64)
    moved = {name: value.astype(np.float64) for name, value in tensors.items()}
    for k in range(sizes.layers):
        layer, before = f"layer.{k}.", f"layer.{k - 1}.norm2" if k else "norm"
        mean = sums[layer + "query"] / rows
        moved[f"{before}.bias"] -= mean
        moved[layer + "query.bias"] += mean @ moved[layer + "query"]
        moved[layer + "out.bias"] += mean @ moved[layer + "value"] @ moved[layer + "out"] + mean
        mean = sums[layer + "inner"] / rows
        moved[layer + "norm1.bias"] -= mean
        moved[layer + "inner.bias"] += mean @ moved[layer + "inner"]
        moved[layer + "outer.bias"] += mean
    return {name: value.astype(np.float32) for name, value in moved.items()}


def compute_gram_matrices(
    sizes: ModelSizes, tensors: Tensors, sentences: Sequence[TokenizedSentence]
) -> dict[str, np.ndarray]:
    grams: dict[str, np.ndarray] = {}
    for values in iter_activations(sizes, tensors, sentences):
        for name, x in values.items():
            if name.endswith((".key", ".value")):
                continue
            if name not in grams:
                grams[name] = np.zeros((x.shape[1], x.shape[1]))
            grams[name] += x.T @ x
    for k in range(sizes.layers):  # query, key and value read the same
        grams[f"layer.{k}.key"] = grams[f"layer.{k}.value"] = grams[f"layer.{k}.query"]
    return grams


def round_matrix(matrix: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 values and a scale for each column; rows not yet rounded make up for the error of those that are."""
    weights = matrix.astype(np.float64)
    scale = np.maximum(np.abs(weights).max(0), 1e-12) / MAX_WEIGHT
    order = np.argsort(-np.diag(gram))  # what matters most first, while there are rows left to make up for it
    weights = weights[order]
    damped = gram[np.ix_(order, order)] + np.eye(len(gram)) * DAMPING * np.diag(gram).mean()
    factor = np.linalg.cholesky(np.linalg.inv(damped)).T
    values = np.zeros_like(weights)
    for start in range(0, len(weights), BLOCK):
        end = min(start + BLOCK, len(weights))
        errors = np.zeros((end - start, weights.shape[1]))
        for row in range(start, end):
            values[row] = np.clip(np.rint(weights[row] / scale), -MAX_WEIGHT, MAX_WEIGHT)
            errors[row - start] = (weights[row] - values[row] * scale) / factor[row, row]
            weights[row:end] -= np.outer(factor[row, row:end], errors[row - start])
        weights[end:] -= factor[start:end, end:].T @ errors
    restored = np.empty_like(values)
    restored[order] = values
    return restored.astype(np.int8), scale.astype(np.float32)


def round_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An embedding table: int8 values and a scale for each row."""
    scale = np.maximum(np.abs(table).max(1, keepdims=True), 1e-12) / EMBEDDING_LIMIT
    return np.rint(table / scale).astype(np.int8), scale.astype(np.float32)


def quantize_tensors(sizes: ModelSizes, tensors: Tensors, sentences: Sequence[TokenizedSentence]) -> Tensors:
    """What the weights file holds: int8 values and scales of matrices and embeddings, the rest as it is."""
    tensors = dict(tensors) | {"position": tensors["position"][:MAX_LENGTH]}
    tensors = recentre(sizes, tensors, sentences)
    print("means taken out", flush=True)
    grams = compute_gram_matrices(sizes, tensors, sentences)
    answer: Tensors = {}
    matrices = {f"layer.{k}.{part}" for k in range(sizes.layers) for part in LAYER_MATRICES}
    for name, value in tensors.items():
        if name in matrices:
            answer[f"{name}.values"], answer[f"{name}.scale"] = round_matrix(value, grams[name])
            if name.endswith(".outer"):
                print(f"rounded {name.removesuffix('.outer')} of {sizes.layers}", flush=True)
        elif name in ("word", "position"):
            answer[f"{name}.values"], answer[f"{name}.scale"] = round_rows(value)
        else:
            answer[name] = value
    return answer


def write_graph(
    sizes: ModelSizes,
    arithmetic: str,
    places: Mapping[str, onnx.TensorProto],
    out: Path,
    *,
    hidden_layers: Sequence[int] = (),
    ranges: Mapping[str, ActivationRange] | None = None,
) -> None:
    graph, _ = build_graph(sizes, arithmetic, hidden_layers=hidden_layers, ranges=ranges)
    model = assemble_model(graph, places)
    (out / FILES[arithmetic]).write_bytes(model.SerializeToString(deterministic=True))


def write_graphs(
    sizes: ModelSizes,
    tensors: Tensors,
    out: Path,
    *,
    hidden_layers: Sequence[int] = (),
    ranges: Mapping[str, ActivationRange] | None = None,
) -> None:
    """Both graphs over one file of weights. Without `ranges` the int8 graph finds a scale for each row."""
    places = write_weights(tensors, out / FILES["weights"])
    for arithmetic in ("fast", "exact"):
        write_graph(sizes, arithmetic, places, out, hidden_layers=hidden_layers, ranges=ranges)


def quantize(fp32: Path, data: Path, out: Path, *, calibration: int) -> None:
    """Writes both graphs, their weights and the tokenizer."""
    out.mkdir(parents=True, exist_ok=True)
    sizes, tensors = read_fused_weights(fp32 / "model.onnx")
    casing = len(tensors["types"]) > 2
    sentences = load_encoded_sentences(fp32 / "tokenizer.json", data / "train.tsv", calibration, casing=casing)
    rounded = quantize_tensors(sizes, tensors, sentences)
    write_graphs(sizes, rounded, out, ranges=measure_ranges(sizes, multiply_out(rounded), sentences))
    shutil.copyfile(fp32 / "tokenizer.json", out / FILES["tokenizer"])


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fp32", type=Path, required=True, help="what export.py wrote")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--calibration", type=int, default=256, help="training sentences to look at")
    parser.add_argument("--sentences", type=int, default=60, help="dev sentences for the checks")
    parser.add_argument("--plans", type=int, default=3, help="random batch plans for the checks")
    parser.add_argument("--figures", type=Path, help="where to write the checks' figures as JSON")
    options = parser.parse_args()
    quantize(options.fp32, options.data, options.out, calibration=options.calibration)
    figures = verify(options.fp32, options.out, options.data, count=options.sentences, plans=options.plans)
    if options.figures:
        options.figures.write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    main()
