"""A shipped model folder as a torch model: the int8 weights multiplied out, with all of its layers or some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from transformers import BertConfig, BertForTokenClassification

from models.weights_file import multiply_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    Tensors = dict[str, npt.NDArray[np.float32]]

HEADS = 12  # the one size that the weights' shapes do not tell
PLACES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "inner": "intermediate.dense",
    "outer": "output.dense",
}
NORMS = {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}


def read_shipped_tensors(graph: Path) -> Tensors:
    """The tensors of a shipped graph, int8 values multiplied out."""
    found = {each.name: numpy_helper.to_array(each) for each in onnx.load(str(graph)).graph.initializer}
    return multiply_out(found)


def load_shipped_model(
    graph: Path, labels: Sequence[str], *, layers: Sequence[int] | None = None
) -> BertForTokenClassification:
    """The model of the graph `model.exact.onnx`. `layers`: only these, in this order, as the start of a smaller student."""
    given = read_shipped_tensors(graph)
    chosen = (
        layers
        if layers is not None
        else range(1 + max(int(name.split(".")[1]) for name in given if name.startswith("layer.")))
    )
    config = BertConfig(
        vocab_size=len(given["word"]),
        hidden_size=given["word"].shape[1],
        num_hidden_layers=len(chosen),
        num_attention_heads=HEADS,
        intermediate_size=len(given["layer.0.inner.bias"]),
        max_position_embeddings=len(given["position"]),
        type_vocab_size=len(given["types"]),
        id2label=dict(enumerate(labels)),
        label2id={label: k for k, label in enumerate(labels)},
    )
    state = {
        "bert.embeddings.word_embeddings.weight": given["word"],
        "bert.embeddings.position_embeddings.weight": given["position"],
        "bert.embeddings.token_type_embeddings.weight": given["types"],
        "bert.embeddings.LayerNorm.weight": given["norm.gain"],
        "bert.embeddings.LayerNorm.bias": given["norm.bias"],
        "classifier.weight": given["head"].T,
        "classifier.bias": given["head.bias"],
    }
    for k, source in enumerate(chosen):
        ours, theirs = f"layer.{source}.", f"bert.encoder.layer.{k}."
        for part, place in PLACES.items():
            matrix = given[ours + part]
            state[f"{theirs}{place}.weight"] = matrix.T
            state[f"{theirs}{place}.bias"] = given.get(f"{ours}{part}.bias", np.zeros(matrix.shape[1], np.float32))
        for norm, place in NORMS.items():
            state[f"{theirs}{place}.weight"] = given[f"{ours}{norm}.gain"]
            state[f"{theirs}{place}.bias"] = given[f"{ours}{norm}.bias"]
    model = BertForTokenClassification(config)
    model.load_state_dict({name: torch.from_numpy(np.array(value, order="C")) for name, value in state.items()})
    return model.eval()
