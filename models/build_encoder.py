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
from bert_weights import arrange_for_graph
from graphs import INPUTS, ModelSizes, Tensors, assemble_model, build_graph
from manifest import FILES, MAX_LENGTH
from onnx import numpy_helper
from quantize import quantize_tensors, write_graphs
from tokenizers import Tokenizer
from verify import load_encoded_sentences, make_batch_plan, make_edge_cases, open_session, pad_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnxruntime
    from tokenized import TokenizedSentence

NAME = "minilm-l6-v2"
HIDDEN_LAYERS = (0, 2, 4, 6)
CALIBRATION_SENTENCES = 256
MANIFEST_FILE = "encoder.json"


def run_each(session: onnxruntime.InferenceSession, sentences: Sequence[TokenizedSentence]) -> list[np.ndarray]:
    return [session.run(["hidden"], pad_batch([each]))[0][0] for each in sentences]


def measure_error(
    sizes: ModelSizes,
    tensors: Tensors,
    folder: Path,
    sentences: Sequence[TokenizedSentence],
    *,
    hidden_layers: Sequence[int],
) -> float:
    """How far the int8 states are from fp32's, relative to their spread. Constant shifts do not count."""
    import onnxruntime

    graph, _ = build_graph(sizes, "float", hidden_layers=hidden_layers)
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


def write_encoder(
    out: Path,
    *,
    name: str,
    weights: tuple[ModelSizes, Tensors],
    tokenizer: Tokenizer,
    calibration: Sequence[Path],
    hidden_layers: Sequence[int],
) -> None:
    """Rounds the weights, writes both graphs, the tokenizer and the manifest. Stops if batch mates change the states."""
    out.mkdir(parents=True, exist_ok=True)
    sizes, tensors = weights
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(out / FILES["tokenizer"]))
    count = CALIBRATION_SENTENCES // len(calibration)
    sentences = [
        sentence
        for columns in calibration
        for sentence in load_encoded_sentences(out / FILES["tokenizer"], columns, count, casing=False)
    ]
    write_graphs(sizes, quantize_tensors(sizes, tensors, sentences), out, hidden_layers=hidden_layers)
    error = measure_error(sizes, tensors, out, sentences, hidden_layers=hidden_layers)
    mixed = [*sentences[:40], *make_edge_cases(len(tensors["word"]), 1)]
    drift = max(measure_drift(out / FILES[precision], mixed) for precision in ("fast", "exact"))
    print(f"relative error of int8 states {error:.4f}, change with batch mates {drift}")
    if drift != 0:
        raise SystemExit("batch mates change the states")
    content: dict[str, Any] = {
        "name": name,
        "format": 1,
        "hidden_size": sizes.hidden,
        "layers": list(hidden_layers),
        "inputs": list(INPUTS),
        "max_length": MAX_LENGTH,
        "ort_level": "basic",
        "invariant": "exact",
        "files": FILES,
        "sha256": {file: hashlib.sha256((out / file).read_bytes()).hexdigest() for file in FILES.values()},
        "figures": {"relative_error": error},
    }
    (out / MANIFEST_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"encoder in {out}: {sum((out / file).stat().st_size for file in FILES.values()) / 1e6:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder with model.safetensors and tokenizer.json")
    parser.add_argument("--calibration", type=Path, required=True, help="sentences in columns to calibrate rounding on")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    from safetensors.numpy import load_file

    write_encoder(
        options.out,
        name=NAME,
        weights=arrange_for_graph(load_file(options.weights / "model.safetensors")),
        tokenizer=Tokenizer.from_file(str(options.weights / "tokenizer.json")),
        calibration=[options.calibration],
        hidden_layers=HIDDEN_LAYERS,
    )


if __name__ == "__main__":
    main()
