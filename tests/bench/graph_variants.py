"""The int8 graph of a shipped model in other forms, over the same weights. Each form undoes one choice of `models/arithmetic.py`.

Nothing is trained, rounded or calibrated: ranges and weights are those of the shipped file.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper

from service.inference.model.files import find_external_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SCRIPTS = ("graphs", "weights_file")  # of models/
INT8_PRODUCT = "MatMulIntegerToFloat"
N_INPUTS_WITH_BIAS = 7


def write_forms(graph: Path, out: Path, scripts: Mapping[str, Any]) -> dict[str, Path]:
    """The graphs by name, in `out` with a copy of the weights, which they name relative to themselves."""
    for weights in find_external_data(graph):
        shutil.copyfile(weights, out / weights.name)
    forms = {"row_scales": build_with_row_scales(graph, scripts)}
    for name, edit in (
        ("batch_scales", use_batch_scales),
        ("no_further_columns", remove_further_columns),
        ("bias_apart", add_bias_apart),
        ("erf_gelu", use_erf_gelu),
    ):
        forms[name] = onnx.load(str(graph), load_external_data=False)
        edit(forms[name])
    paths = {name: out / f"{name}.onnx" for name in forms}
    for name, form in forms.items():
        paths[name].write_bytes(form.SerializeToString(deterministic=True))
    return paths


def build_with_row_scales(graph: Path, scripts: Mapping[str, Any]) -> onnx.ModelProto:
    """No fixed ranges: each row of what goes into a matrix is reduced to find its scale."""
    places = scripts["weights_file"].read_places(graph)
    builder, _ = scripts["graphs"].build_graph(scripts["graphs"].read_sizes(graph), "fast")
    model: onnx.ModelProto = scripts["graphs"].assemble_model(builder, places)
    return model


def use_batch_scales(model: onnx.ModelProto) -> None:
    """One scale for all rows of a batch, found when it runs. This is what makes answers depend on batch mates."""
    remove_further_columns(model)
    makers = map_makers(model)
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            node.op_type = "DynamicQuantizeLinear"
            del node.input[1:], node.attribute[:]
            node.output.extend(f"{node.output[0]}_{part}" for part in ("scale", "zero_point"))
        elif node.op_type == INT8_PRODUCT:
            packed = makers[node.input[0]]
            while packed.op_type in {"Reshape", "Transpose"}:
                packed = makers[packed.input[0]]
            node.input[2], node.input[4] = packed.output[1:]
        elif node.op_type == "Mul" and node.input[0] in makers and makers[node.input[0]].op_type == INT8_PRODUCT:
            node.op_type = "Identity"  # it put in the scale of each row, which the product now has
            del node.input[1:]
    remove_unused_nodes(model)


def remove_further_columns(model: onnx.ModelProto) -> None:
    """What the widest channel has above its range is cut off."""
    makers = map_makers(model)
    for node in model.graph.node:
        if node.op_type != INT8_PRODUCT:
            continue
        for place in (0, 1):  # codes, and the rows of the matrix: the own ones come first in both
            maker = makers.get(node.input[place])
            if maker is not None and maker.op_type == "Concat":
                node.input[place] = maker.input[0]
    remove_unused_nodes(model)


def add_bias_apart(model: onnx.ModelProto) -> None:
    """Biases are added by nodes of their own instead of by the multiplication."""
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type == INT8_PRODUCT and len(node.input) == N_INPUTS_WITH_BIAS:
            bias, answer = node.input.pop(), node.output[0]
            node.output[0] = f"{answer}_product"
            nodes.append(helper.make_node("Add", [node.output[0], bias], [answer], f"{answer}_bias"))
    replace_nodes(model, nodes)


def use_erf_gelu(model: onnx.ModelProto) -> None:
    """GELU by erf instead of by tanh."""
    for node in model.graph.node:
        if node.op_type == "FastGelu":
            node.op_type = "Gelu"


def map_makers(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The node that each value comes from, by the value's name."""
    return {node.output[0]: node for node in model.graph.node}


def remove_unused_nodes(model: onnx.ModelProto) -> None:
    """Drops what no output needs, which onnxruntime would run all the same."""
    needed = {each.name for each in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    replace_nodes(model, reversed(kept))


def replace_nodes(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    chosen = list(nodes)
    del model.graph.node[:]
    model.graph.node.extend(chosen)
