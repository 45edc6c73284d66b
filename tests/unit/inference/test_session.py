"""Graphs that can't be used are refused at start, with a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, helper

from service.errors import ModelError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.support.tiny_models import LABELS, make_graph, make_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.unit.inference.conftest import MakeFolder


@pytest.fixture
def folder(folder_of: MakeFolder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("wordpiece"), tmp_path / "model"))


def start(folder: Path) -> Classifier:
    return Classifier(ModelFolder.load(folder))


def change_graph(folder: Path, change: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(folder / "model.onnx")
    change(model)
    onnx.save(model, folder / "model.onnx")


def one_node(
    folder: Path, node: onnx.NodeProto, name: str, shape: Sequence[str | int] | None, kind: int = TensorProto.INT64
) -> None:
    """A graph of one node from an input of that name to `logits`."""
    graph = helper.make_graph(
        [node],
        "odd",
        [helper.make_tensor_value_info(name, kind, ["batch", "sequence"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx"
    )


def test_a_file_that_is_no_graph(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"<html>404</html>")
    with pytest.raises(ModelError, match=r"model\.onnx is not a graph that onnxruntime can open"):
        start(folder)


def test_a_graph_cut_short(folder: Path) -> None:
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match="is not a graph that onnxruntime can open"):
        start(folder)


def test_labels_that_are_not_as_many_as_outputs(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "O", "1": "B-PER", "2": "I-PER"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="9 outputs a token and the folder names 3 labels"):
        start(folder)


def test_labels_that_are_not_as_many_as_outputs_of_a_graph_that_does_not_tell(folder: Path) -> None:
    def untold(model: onnx.ModelProto) -> None:
        """How wide the answer is shows only when it runs."""
        model.graph.node[-1].output[0] = "full"
        model.graph.node.append(helper.make_node("Cast", ["head_kept"], ["kept"], to=TensorProto.BOOL))
        model.graph.node.append(helper.make_node("Compress", ["full", "kept"], ["logits"], axis=2))
        model.graph.initializer.append(helper.make_tensor("head_kept", TensorProto.INT64, [9], [1] * 9))
        model.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "labels"

    change_graph(folder, untold)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "O", "1": "B-PER", "2": "I-PER"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"the shape \[1, 42, 9\] where \[1, 42, 3\]"):
        start(folder)


def test_a_graph_without_input_ids(folder: Path) -> None:
    one_node(folder, helper.make_node("Cast", ["pixels"], ["logits"], to=TensorProto.FLOAT), "pixels", ["b", "s", 9])
    with pytest.raises(ModelError, match=r"no input `input_ids` \(it has pixels\)"):
        start(folder)


@pytest.mark.parametrize("shape", [["batch", "sequence"], None])
def test_a_graph_that_classifies_sentences(folder: Path, shape: list[str] | None) -> None:
    cast = helper.make_node("Cast", ["input_ids"], ["logits"], to=TensorProto.FLOAT)
    one_node(folder, cast, "input_ids", shape)
    with pytest.raises(ModelError, match=r"\(batch, tokens, labels\) is\s+expected"):
        start(folder)


def test_a_graph_that_wants_something_else(folder: Path) -> None:
    def extra(model: onnx.ModelProto) -> None:
        model.graph.input.append(helper.make_tensor_value_info("bbox", TensorProto.INT64, ["batch", "sequence"]))

    change_graph(folder, extra)
    with pytest.raises(ModelError, match="wants an input `bbox`"):
        start(folder)


def test_a_graph_that_takes_other_numbers(folder: Path) -> None:
    cast = helper.make_node("Cast", ["input_ids"], ["logits"], to=TensorProto.FLOAT)
    one_node(folder, cast, "input_ids", None, TensorProto.FLOAT16)
    with pytest.raises(ModelError, match=r"takes `input_ids` as tensor\(float16\)"):
        start(folder)


def test_a_graph_of_a_fixed_shape(folder: Path) -> None:
    def fixed(model: onnx.ModelProto) -> None:
        for each in model.graph.input:
            each.type.tensor_type.shape.dim[1].dim_value = 128

    change_graph(folder, fixed)
    with pytest.raises(ModelError, match="export it with dynamic axes"):
        start(folder)


def test_a_tokenizer_of_another_model(folder: Path) -> None:
    make_graph(folder / "model.onnx", vocabulary=20, n_classes=len(LABELS))
    assert make_tokenizer("wordpiece").get_vocab_size() > 100
    with pytest.raises(ModelError, match=r"graph and tokenizer\.json may belong to different models"):
        start(folder)
