"""Exports a trained token classifier as a folder that labelwatch can use: fp32 ONNX, tokenizer and config.

    python models/export.py --encoder small --weights RUN/best.pt --tokenizer DIR/tokenizer.json --out DIR

The graph is traced with eager attention, because that is the pattern onnxruntime's optimiser knows how to fuse.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
import torch
from corpus import LABELS
from onnxruntime.transformers import optimizer
from tokenizers import Tokenizer
from transformers import BertConfig, BertForTokenClassification

if TYPE_CHECKING:
    from collections.abc import Mapping

INPUTS = ("input_ids", "token_type_ids", "attention_mask")
HEADS = {"base": 12, "small": 12}  # the one size that the weights' shapes do not tell
OPSET = 17
TOLERANCE = 1e-4


def load_model(encoder: str, weights: Path) -> BertForTokenClassification:
    """The model of a state dict, its sizes read from the weights, with the attention that fuses."""
    state: Mapping[str, torch.Tensor] = torch.load(weights, map_location="cpu", weights_only=True)
    vocabulary, hidden = state["bert.embeddings.word_embeddings.weight"].shape
    if len(state["classifier.bias"]) != len(LABELS):
        raise SystemExit(f"{weights} has {len(state['classifier.bias'])} classes, not {len(LABELS)}")
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=1 + max(int(name.split(".")[3]) for name in state if name.startswith("bert.encoder.layer.")),
        num_attention_heads=HEADS[encoder],
        intermediate_size=len(state["bert.encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(state["bert.embeddings.position_embeddings.weight"]),
        type_vocab_size=len(state["bert.embeddings.token_type_embeddings.weight"]),
        id2label=dict(enumerate(LABELS)),
        label2id={label: index for index, label in enumerate(LABELS)},
        attn_implementation="eager",
    )
    model = BertForTokenClassification(config)
    model.load_state_dict(state)
    return model.eval()


class Logits(torch.nn.Module):
    """The model with its inputs by position, in the order the graph names them."""

    def __init__(self, model: BertForTokenClassification) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, token_type_ids=types, attention_mask=mask).logits


def make_random_inputs(model: BertForTokenClassification, lengths: list[int], seed: int) -> tuple[torch.Tensor, ...]:
    """Sentences of random subwords and token types, padded to the longest."""
    rng = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths))
    mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int64)
    ids = rng.integers(1, model.config.vocab_size, shape) * mask
    types = rng.integers(0, model.config.type_vocab_size, shape) * mask
    return torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(mask)


def export_graph(model: BertForTokenClassification, path: Path) -> None:
    """Traces the model, fuses attention, layer norms and GELU, writes the graph."""
    axes = {name: {0: "sentences", 1: "subwords"} for name in (*INPUTS, "logits")}
    with tempfile.TemporaryDirectory() as scratch:
        traced = Path(scratch) / "traced.onnx"
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tracer warns of every shape it reads; the check below is what counts
            torch.onnx.export(
                Logits(model).eval(),
                make_random_inputs(model, [9, 7], 0),
                str(traced),
                input_names=list(INPUTS),
                output_names=["logits"],
                dynamic_axes=axes,
                opset_version=OPSET,
                dynamo=False,
            )
        fused = optimizer.optimize_model(
            str(traced),
            model_type="bert",
            num_heads=model.config.num_attention_heads,
            hidden_size=model.config.hidden_size,
            opt_level=0,
        )
        fused.save_model_to_file(str(path))
    counts = fused.get_fused_operator_statistics()
    layers = model.config.num_hidden_layers
    print("fused: " + ", ".join(f"{count} {name}" for name, count in counts.items() if count))
    if counts["Attention"] != layers:
        raise SystemExit(f"{counts['Attention']} of {layers} attentions were fused: the exporter's pattern has changed")


def measure_largest_difference(model: BertForTokenClassification, path: Path) -> float:
    """How far the graph's logits are from torch's on the subwords that are no padding."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    longest = min(200, model.config.max_position_embeddings)
    for seed, lengths in enumerate([[3], [12, 5, 31], [longest, 17], [1, 2]]):
        inputs = make_random_inputs(model, lengths, seed)
        with torch.no_grad():
            wanted = Logits(model).eval()(*inputs).numpy()
        (got,) = session.run(["logits"], {name: value.numpy() for name, value in zip(INPUTS, inputs, strict=True)})
        worst = max(worst, float(np.abs(got - wanted)[inputs[2].numpy() == 1].max()))
    return worst


def write_tokenizer(source: Path, out: Path) -> None:
    """The tokenizer without padding and truncation: windows and batches are the service's business."""
    tokenizer = Tokenizer.from_file(str(source))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", choices=list(HEADS), required=True)
    parser.add_argument("--weights", type=Path, required=True, help="a run's best.pt")
    parser.add_argument("--tokenizer", type=Path, required=True, help="the encoder's tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    model = load_model(options.encoder, options.weights)
    path = options.out / "model.onnx"
    export_graph(model, path)
    difference = measure_largest_difference(model, path)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, logits within {difference:.1e} of torch's")
    if difference >= TOLERANCE:
        raise SystemExit(f"the graph is {difference:.1e} off, more than {TOLERANCE:.0e}")
    write_tokenizer(options.tokenizer, options.out / "tokenizer.json")
    settings = model.config.to_dict()
    kept = {
        "model_type",
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
        "layer_norm_eps",
        "id2label",
        "label2id",
    }
    config = {name: settings[name] for name in sorted(kept)} | {"architectures": ["BertForTokenClassification"]}
    (options.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
