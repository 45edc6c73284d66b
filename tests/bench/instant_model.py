"""A model that answers at once: the default model's tokenizer and classes, and a graph that only looks up a table.

With it a benchmark measures the service around the graph, as a graph on a GPU would find it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from tests.bench.pipeline import read_sample

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

CONFIDENT_LOGIT = 6.0


def build_instant_model(folder: Path) -> None:
    """Writes the model folder."""
    source = find_default_model()
    folder.mkdir(parents=True)
    shutil.copy(source / "tokenizer.json", folder)
    graph = folder / "model.onnx"
    _write_graph(graph, _build_table(ModelFolder.load(source)))
    manifest: dict[str, Any] = json.loads((source / "model.json").read_text())
    manifest["name"] = "instant"
    manifest["files"] = {"fast": graph.name, "exact": graph.name, "tokenizer": "tokenizer.json"}
    manifest["sha256"] = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (graph, folder / "tokenizer.json")
    }
    (folder / "model.json").write_text(json.dumps(manifest))


def _build_table(default: ModelFolder) -> npt.NDArray[np.float32]:
    """Logits by subword: the label that most words of the sample with this subword have.

    So few words are flagged, as with a real model: a flag takes time in the service.
    """
    encoder = Classifier(default, self_test=False).encoder
    sentences = read_sample()
    size = 1 + max(json.loads((default.path / "tokenizer.json").read_text())["model"]["vocab"].values())
    counts = np.zeros((size, len(default.labels)), np.float32)
    for sentence, encoded in zip(sentences, encoder.encode([each.tokens for each in sentences]), strict=True):
        ids = np.concatenate([window.ids[window.keep_start : window.keep_end] for window in encoded.windows])
        classes = [default.labels.index(label) for label in sentence.labels]
        np.add.at(counts, (ids[encoded.overlaps.subword], np.array(classes)[encoded.overlaps.word]), 1)
    table = np.zeros_like(counts)
    table[np.arange(size), counts.argmax(axis=1)] = CONFIDENT_LOGIT
    return table


def _write_graph(path: Path, table: npt.NDArray[np.float32]) -> None:
    ids, types, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "token_type_ids", "attention_mask")
    )
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "tokens", table.shape[1]])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["logits"])],
        "instant",
        [ids, mask, types],
        [logits],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
