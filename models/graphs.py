"""The encoder as a hand-written ONNX graph, in three arithmetics (`arithmetic.py`) over the same named tensors.

Rows are subwords in the order position, sentence: then attention needs no transposed copy of query, key and value.
Layer norms and GELU stay separate nodes, because onnxruntime's fused ones are slower on a CPU; sessions have to
load the graphs at the optimisation level `basic`, which leaves them so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
from arithmetic import CONTRIB, INPUTS, ExactArithmetic, FastArithmetic, FloatArithmetic, GraphBuilder
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from arithmetic import ActivationRange

Tensors = dict[str, np.ndarray]

OPSET = 19
MASK_PENALTY = 1e4
LAYER_MATRICES = ("query", "key", "value", "out", "inner", "outer")


@dataclass(frozen=True)
class ModelSizes:
    layers: int
    heads: int
    hidden: int
    classes: int
    epsilon: float


def read_fused_weights(path: Path) -> tuple[ModelSizes, Tensors]:
    """The weights of a graph that export.py wrote, with the biases that attention does not need folded away.

    A key bias adds the same to all of a query's logits, which softmax takes out again; attention weights sum to one,
    so a value bias comes out unchanged and belongs to the next bias.
    """
    graph = onnx.load(str(path)).graph
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    attentions = [node for node in graph.node if node.op_type == "Attention"]
    matrices = {node.output[0]: given[node.input[1]] for node in graph.node if node.op_type == "MatMul"}

    def named(ending: str) -> np.ndarray:
        return next(value for name, value in given.items() if name.endswith(ending))

    def matrix(place: str) -> np.ndarray:
        return next(value for name, value in matrices.items() if re.search(rf"/{place}/MatMul", name))

    tensors: Tensors = {
        "word": named("embeddings.word_embeddings.weight"),
        "position": named("embeddings.position_embeddings.weight"),
        "types": named("embeddings.token_type_embeddings.weight"),
        "norm.gain": named("embeddings.LayerNorm.weight"),
        "norm.bias": named("embeddings.LayerNorm.bias"),
        "head": matrix("classifier"),
        "head.bias": named("classifier.bias"),
    }
    for k, node in enumerate(attentions):
        query, key, value = np.split(given[node.input[1]], 3, axis=1)
        query_bias, _, value_bias = np.split(given[node.input[2]], 3)
        theirs, ours = f"layer.{k}", f"layer.{k}."
        out = matrix(f"{theirs}/attention/output/dense")
        tensors |= {
            ours + "query": query,
            ours + "query.bias": query_bias,
            ours + "key": key,
            ours + "value": value,
            ours + "out": out,
            ours + "out.bias": named(f"{theirs}.attention.output.dense.bias") + value_bias @ out,
            ours + "norm1.gain": named(f"{theirs}.attention.output.LayerNorm.weight"),
            ours + "norm1.bias": named(f"{theirs}.attention.output.LayerNorm.bias"),
            ours + "inner": matrix(f"{theirs}/intermediate/dense"),
            ours + "inner.bias": named(f"{theirs}.intermediate.dense.bias"),
            ours + "outer": matrix(f"{theirs}/output/dense"),
            ours + "outer.bias": named(f"{theirs}.output.dense.bias"),
            ours + "norm2.gain": named(f"{theirs}.output.LayerNorm.weight"),
            ours + "norm2.bias": named(f"{theirs}.output.LayerNorm.bias"),
        }
    norm = next(node for node in graph.node if node.op_type.endswith("LayerNormalization"))
    sizes = ModelSizes(
        layers=len(attentions),
        heads=helper.get_node_attr_value(attentions[0], "num_heads"),
        hidden=tensors["word"].shape[1],
        classes=len(tensors["head.bias"]),
        epsilon=helper.get_node_attr_value(norm, "epsilon"),
    )
    return sizes, tensors


def read_sizes(graph: Path) -> ModelSizes:
    """The sizes of a finished graph. The weights do not tell the number of heads: a constant of the graph does."""
    body = onnx.load(str(graph), load_external_data=False).graph
    shapes = {each.name: tuple(each.dims) for each in body.initializer}
    hidden = shapes["word.values"][1]
    pairs = [each for each in body.initializer if each.data_type == TensorProto.INT64 and tuple(each.dims) == (2,)]
    heads = next(a for a, b in (numpy_helper.to_array(each).tolist() for each in pairs) if a > 0 and a * b == hidden)
    norm = next(node for node in body.node if node.op_type == "LayerNormalization")
    return ModelSizes(
        layers=1 + max(int(name.split(".")[1]) for name in shapes if name.startswith("layer.")),
        heads=heads,
        hidden=hidden,
        classes=shapes["head.bias"][0],
        epsilon=helper.get_node_attr_value(norm, "epsilon"),
    )


def make_arithmetic(
    graph: GraphBuilder, kind: str, ranges: Mapping[str, ActivationRange]
) -> FloatArithmetic | FastArithmetic:
    if kind == "fast":
        return FastArithmetic(graph, ranges)
    return {"float": FloatArithmetic, "exact": ExactArithmetic}[kind](graph)


def build_graph(
    sizes: ModelSizes,
    arithmetic: str,
    *,
    hidden_layers: Sequence[int] = (),
    ranges: Mapping[str, ActivationRange] | None = None,
) -> tuple[GraphBuilder, FloatArithmetic | FastArithmetic]:
    """Embeddings, layers, and the head. With `hidden_layers` the states after these layers, side by side, and no head.

    `ranges`: for the arithmetic `fast`, fixed ranges of what goes into matrices, by the first matrix that reads it.
    """
    g = GraphBuilder()
    how = make_arithmetic(g, arithmetic, ranges or {})
    flat = g.add_constant([-1, sizes.hidden], np.int64)

    def normed(x: str, name: str) -> str:
        gain, bias = g.use_tensor(f"{name}.gain"), g.use_tensor(f"{name}.bias")
        return g.add_op("LayerNormalization", x, gain, bias, axis=-1, epsilon=sizes.epsilon)

    def join_heads(x: str) -> str:
        return g.add_op("Reshape", g.add_op("Transpose", x, perm=[2, 0, 1, 3]), flat)

    ids, types = (g.add_op("Transpose", name, perm=[1, 0]) for name in INPUTS[:2])
    shape = g.add_op("Shape", ids)
    heads = g.add_op("Concat", shape, g.add_constant([sizes.heads, sizes.hidden // sizes.heads], np.int64), axis=0)
    hidden = g.add_op("Cast", g.add_op("Sub", g.add_constant(1, np.int64), INPUTS[2]), to=TensorProto.FLOAT)
    hidden = g.add_op(
        "Unsqueeze", g.add_op("Mul", hidden, g.add_constant(-MASK_PENALTY)), g.add_constant([1, 2], np.int64)
    )

    if arithmetic == "float":
        words = g.add_op("Gather", g.use_tensor("word"), ids)
        positions = g.use_tensor("position")
    else:
        words = g.add_op("Cast", g.add_op("Gather", g.use_tensor("word.values"), ids), to=TensorProto.FLOAT)
        words = g.add_op("Mul", words, g.add_op("Gather", g.use_tensor("word.scale"), ids))
        positions = g.add_dequantized("position")
    positions = g.add_op("Slice", positions, g.add_constant([0], np.int64), g.add_op("Shape", ids, start=0, end=1))
    positions = g.add_op("Unsqueeze", positions, g.add_constant([1], np.int64))
    x = g.add_op("Add", g.add_op("Add", words, g.add_op("Gather", g.use_tensor("types"), types)), positions)
    x = normed(g.add_op("Reshape", x, flat), "norm")
    states = [x]

    for k in range(sizes.layers):
        layer = f"layer.{k}."
        entered = how.prepare_input(x, layer + "query")
        query = how.add_linear(entered, layer + "query", bias=True)
        key, value = (how.add_linear(entered, layer + part) for part in ("key", "value"))
        query, key, value = (g.add_op("Reshape", part, heads) for part in (query, key, value))
        damping = (sizes.hidden / sizes.heads) ** -0.5
        logits = g.add_matmul(query, key, transBatchA=1, transBatchB=1, transB=1, alpha=damping)
        weights = g.add_op("Softmax", g.add_op("Add", logits, hidden), axis=-1)
        mixed = how.prepare_input(g.add_matmul(weights, value, transBatchB=1), layer + "out", reshape=join_heads)
        out = how.add_linear(mixed, layer + "out", bias=True)
        x = normed(g.add_op("Add", out, x), layer + "norm1")
        inner = how.add_linear(how.prepare_input(x, layer + "inner"), layer + "inner", bias=True)
        inner = how.prepare_input(how.add_gelu(inner), layer + "outer", gelu=True)
        outer = how.add_linear(inner, layer + "outer", bias=True)
        x = normed(g.add_op("Add", outer, x), layer + "norm2")
        states.append(x)

    if hidden_layers:
        answer = g.add_op("Concat", *(states[k] for k in hidden_layers), axis=1)
        g.answer = ("hidden", sizes.hidden * len(hidden_layers))
    else:
        answer = g.add_op("Add", g.add_matmul(x, g.use_tensor("head")), g.use_tensor("head.bias"))
        g.answer = ("logits", sizes.classes)
    name, width = g.answer
    rows = g.add_op("Concat", shape, g.add_constant([width], np.int64), axis=0)
    g.add_op("Transpose", g.add_op("Reshape", answer, rows), name=name, perm=[1, 0, 2])
    return g, how


def assemble_model(graph: GraphBuilder, initializers: Mapping[str, onnx.TensorProto]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["sentences", "subwords"]) for name in INPUTS]
    name, width = graph.answer
    answer = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["sentences", "subwords", width])
    parts = [*graph.constants.values(), *(initializers[name] for name in graph.tensors)]
    body = helper.make_graph(graph.nodes, "labelwatch", inputs, [answer], parts)
    versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(body, opset_imports=versions, ir_version=9, producer_name="labelwatch")
