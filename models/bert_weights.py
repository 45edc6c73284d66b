"""The weights of a BERT encoder: under Hugging Face's names, and as `graphs.py` names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from graphs import ModelSizes, Tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from checkpoint import Checkpoint

CHECKPOINT_PARTS = ("module/bert/embeddings", "module/bert/encoder")
HEADS = 12  # the one size that the weights' shapes do not tell
EPSILON = 1e-12


def read_checkpoint_weights(checkpoint: Checkpoint, *, layers: int | None = None) -> Tensors:
    """A checkpoint's variables under Hugging Face's names, kernels transposed; only the first `layers`, if given."""
    tensors: Tensors = {}
    for variable in checkpoint.list_names():
        if not variable.startswith(CHECKPOINT_PARTS):
            continue
        name = variable.removeprefix("module/bert/").replace("/", ".").replace("layer_", "layer.")
        if layers is not None and name.startswith("encoder.layer.") and int(name.split(".")[2]) >= layers:
            continue
        value = checkpoint.read(variable)
        if name.endswith(".kernel"):
            name, value = f"{name.removesuffix('kernel')}weight", value.T
        name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        if name.endswith("_embeddings"):
            name += ".weight"
        tensors[name] = np.ascontiguousarray(value, np.float32)
    return tensors


def arrange_for_graph(given: Mapping[str, np.ndarray], *, heads: int = HEADS) -> tuple[ModelSizes, Tensors]:
    """The weights under the names of `graphs.py`, with the biases that attention does not need folded away."""
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
    sizes = ModelSizes(layers=layers, heads=heads, hidden=tensors["word"].shape[1], classes=0, epsilon=EPSILON)
    return sizes, tensors
