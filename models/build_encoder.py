"""Builds the encoder that `labelwatch train` puts its heads on: all-MiniLM-L6-v2 as it is, in int8, hidden states as outputs.

    python models/build_encoder.py --weights DIR --calibration models/sample/sample.tsv --out models/encoder

`--weights` is what `encoders.py --encoder small` writes. Needs no torch. The graph answers with the states after layers
0, 2, 4 and 6, side by side: the last layer alone gives much poorer word features.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from graphs import INPUTS, ModelSizes, Tensors, assemble_model, build_graph
from manifest import FILES, MAX_LENGTH
from onnx import numpy_helper
from quantize import quantize_tensors, write_graphs
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from verify import load_encoded_sentences, make_batch_plan, make_edge_cases, open_session, pad_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnxruntime
    from tokenized import TokenizedSentence

NAME = "minilm-l6-v2"
HIDDEN_LAYERS = (0, 2, 4, 6)
HEADS = 12
EPSILON = 1e-12
MANIFEST_FILE = "encoder.json"


def read_tensors(path: Path) -> tuple[ModelSizes, Tensors]:
    """The weights under the names of `graphs.py`, with the biases that attention does not need folded away."""
    given = load_file(path)
    layers = 1 + max(int(name.split(".")[2]) for name in given if name.startswith("encoder.layer."))
    tensors: Tensors = {
        "word": given["embeddings.word_embeddings.weight"],
        "position": given["embeddings.position_embeddings.weight"],
        "types": given["embeddings.token_type_embeddings.weight"],
        "norm.gain": given["embeddings.LayerNorm.weight"],
        "norm.bias": given["embeddings.LayerNorm.bias"],
    }
    for k in range(layers):
        theirs, ours = f"encoder.layer.{k}.", f"layer.{k}."
        out = given[theirs + "attention.output.dense.weight"].T
        value_bias = given[theirs + "attention.self.value.bias"]
        tensors |= {
            ours + "query": given[theirs + "attention.self.query.weight"].T,
            ours + "query.bias": given[theirs + "attention.self.query.bias"],
            ours + "key": given[theirs + "attention.self.key.weight"].T,
            ours + "value": given[theirs + "attention.self.value.weight"].T,
            ours + "out": out,
            ours + "out.bias": given[theirs + "attention.output.dense.bias"] + value_bias @ out,
            ours + "norm1.gain": given[theirs + "attention.output.LayerNorm.weight"],
            ours + "norm1.bias": given[theirs + "attention.output.LayerNorm.bias"],
            ours + "inner": given[theirs + "intermediate.dense.weight"].T,
            ours + "inner.bias": given[theirs + "intermediate.dense.bias"],
            ours + "outer": given[theirs + "output.dense.weight"].T,
            ours + "outer.bias": given[theirs + "output.dense.bias"],
            ours + "norm2.gain": given[theirs + "output.LayerNorm.weight"],
            ours + "norm2.bias": given[theirs + "output.LayerNorm.bias"],
        }
    tensors = {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}
    return ModelSizes(layers=layers, heads=HEADS, hidden=tensors["word"].shape[1], classes=0, epsilon=EPSILON), tensors


def run_each(session: onnxruntime.InferenceSession, sentences: Sequence[TokenizedSentence]) -> list[np.ndarray]:
    return [session.run(["hidden"], pad_batch([each]))[0][0] for each in sentences]


def measure_error(sizes: ModelSizes, tensors: Tensors, folder: Path, sentences: Sequence[TokenizedSentence]) -> float:
    """How far the int8 states are from fp32's, relative to their spread. Constant shifts do not count."""
    import onnxruntime

    graph, _ = build_graph(sizes, "float", hidden_layers=HIDDEN_LAYERS)
    model = assemble_model(graph, {name: numpy_helper.from_array(tensors[name], name) for name in graph.tensors})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = np.concatenate(run_each(session, sentences))
    found = np.concatenate(run_each(open_session(folder / FILES["fast"]), sentences))
    wanted, found = wanted - wanted.mean(0), found - found.mean(0)
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))


def measure_drift(path: Path, sentences: Sequence[TokenizedSentence], *, plans: int = 3) -> float:
    """The largest change of any state between sentences alone and in random batches."""
    import random

    session, rng = open_session(path), random.Random(1)
    wanted, worst = run_each(session, sentences), 0.0
    for _ in range(plans):
        for chosen, width in make_batch_plan([len(each.ids) for each in sentences], rng):
            (states,) = session.run(["hidden"], pad_batch([sentences[i] for i in chosen], width))
            for row, i in enumerate(chosen):
                worst = float(np.maximum(worst, np.abs(states[row, : len(wanted[i])] - wanted[i]).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder with model.safetensors and tokenizer.json")
    parser.add_argument("--calibration", type=Path, required=True, help="sentences in columns to calibrate rounding on")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    sizes, tensors = read_tensors(options.weights / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(options.weights / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(options.out / FILES["tokenizer"]))
    sentences = load_encoded_sentences(options.out / FILES["tokenizer"], options.calibration, 256, casing=False)
    write_graphs(sizes, quantize_tensors(sizes, tensors, sentences), options.out, hidden_layers=HIDDEN_LAYERS)
    error = measure_error(sizes, tensors, options.out, sentences)
    mixed = [*sentences[:40], *make_edge_cases(len(tensors["word"]), 1)]
    drift = max(measure_drift(options.out / FILES[name], mixed) for name in ("fast", "exact"))
    print(f"relative error of int8 states {error:.4f}, change with batch mates {drift}")
    if drift != 0:
        raise SystemExit("batch mates change the states")
    content: dict[str, Any] = {
        "name": NAME,
        "format": 1,
        "hidden_size": sizes.hidden,
        "layers": list(HIDDEN_LAYERS),
        "inputs": list(INPUTS),
        "max_length": MAX_LENGTH,
        "ort_level": "basic",
        "invariant": "exact",
        "files": FILES,
        "sha256": {file: hashlib.sha256((options.out / file).read_bytes()).hexdigest() for file in FILES.values()},
        "figures": {"relative_error": error},
    }
    (options.out / MANIFEST_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
