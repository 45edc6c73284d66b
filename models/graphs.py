"""The encoder as a hand-written ONNX graph, in three arithmetics over the same named tensors.

float  plain fp32, for calibration
exact  int8 weights that onnxruntime turns into fp32 when it loads them, fp32 arithmetic
fast   int8 weights and int8 activations with one scale a row, so that a row's answer depends on that row alone

Rows are subwords in the order position, sentence: then attention needs no transposed copy of query, key and value.
Layer norms, bias and GELU stay separate nodes, because onnxruntime's fused ones are slower on a CPU; sessions have to
load the graphs at the optimisation level `basic`, which leaves them so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Tensors = dict[str, np.ndarray]

INPUTS = ("input_ids", "token_type_ids", "attention_mask")
CONTRIB = "com.microsoft"
OPSET = 19
MAX_WEIGHT = 63  # AVX2 adds two uint8 × int8 products in 16 bits: 2 × 255 × 63 fits, 2 × 255 × 127 saturates
ZERO_POINT = 128
GELU_ZERO_POINT = 16  # GELU is never under -0.17, so nearly all of the 8 bits can go to what is above zero
GELU_MIN = 0.17
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


class GraphBuilder:
    """Collects nodes; `constant` is kept in the graph, `tensor` is looked up by name when the model is put together."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.tensors: dict[str, None] = {}
        self.answer = ("logits", 0)  # name and width of the graph's output

    def add_op(self, kind: str, *inputs: str, domain: str = "", name: str = "", **attributes: float | list[int]) -> str:
        output = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], output, domain=domain, **attributes))
        return output

    def add_constant(self, value: float | list[int], kind: type = np.float32) -> str:
        name = f"{np.dtype(kind).name}:{value}"
        self.constants[name] = numpy_helper.from_array(np.array(value, kind), name)
        return name

    def use_tensor(self, name: str) -> str:
        self.tensors[name] = None
        return name

    def add_matmul(self, x: str, matrix: str, **attributes: float | int) -> str:
        """MatMul by its other name: onnxruntime would join a plain one with the bias after it to a slower Gemm."""
        return self.add_op("FusedMatMul", x, matrix, domain=CONTRIB, **attributes)

    def add_dequantized(self, name: str) -> str:
        """An int8 tensor as fp32. Of constants, so onnxruntime does it once, at load; a DequantizeLinear it would not."""
        values = self.add_op("Cast", self.use_tensor(f"{name}.values"), to=TensorProto.FLOAT)
        return self.add_op("Mul", values, self.use_tensor(f"{name}.scale"))


class FloatArithmetic:
    """fp32 arithmetic on fp32 weights. Remembers what goes into each matrix."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = graph
        self.matrix_inputs: dict[str, str] = {}

    def prepare_input(self, x: str, *, gelu: bool = False) -> str:  # noqa: ARG002 - the int8 arithmetic needs to know
        return x

    def add_linear(self, x: str, name: str) -> str:
        self.matrix_inputs[name] = x
        return self.graph.add_matmul(x, self.add_weight(name))

    def add_weight(self, name: str) -> str:
        return self.graph.use_tensor(name)


class ExactArithmetic(FloatArithmetic):
    """fp32 arithmetic on int8 weights."""

    def add_weight(self, name: str) -> str:
        return self.graph.add_dequantized(name)


class FastArithmetic:
    """int8 arithmetic: each row is divided by a scale of its own, which comes back in after the multiplication."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = g = graph
        rows = g.add_op("Unsqueeze", g.add_op("Size", INPUTS[0]), g.add_constant([0], np.int64))
        self.zero_points = {
            zero: g.add_op("Expand", g.add_constant(zero, np.uint8), rows) for zero in (ZERO_POINT, GELU_ZERO_POINT)
        }

    def prepare_input(self, x: str, *, gelu: bool = False) -> tuple[str, str, str]:
        g = self.graph
        last = g.add_constant([-1], np.int64)
        largest = g.add_op("ReduceMax", x, last, keepdims=0)
        if gelu:
            scale = g.add_op("Mul", largest, g.add_constant(1 / (255 - GELU_ZERO_POINT)))
            scale = g.add_op("Max", scale, g.add_constant(GELU_MIN / GELU_ZERO_POINT))
        else:
            least = g.add_op("Neg", g.add_op("ReduceMin", x, last, keepdims=0))
            scale = g.add_op(
                "Mul", g.add_op("Max", largest, least, g.add_constant(1e-9)), g.add_constant(1 / (255 - ZERO_POINT))
            )
        zero = GELU_ZERO_POINT if gelu else ZERO_POINT
        packed = g.add_op("QuantizeLinear", x, scale, self.zero_points[zero], axis=0)
        return packed, g.add_op("Unsqueeze", scale, g.add_constant([1], np.int64)), g.add_constant(zero, np.uint8)

    def add_linear(self, x: tuple[str, str, str], name: str) -> str:
        g = self.graph
        packed, scale, zero = x
        product = g.add_op(
            "MatMulIntegerToFloat", packed, g.use_tensor(f"{name}.values"), g.add_constant(1.0), g.use_tensor(f"{name}.scale"),
            zero, g.add_constant(0, np.int8), domain=CONTRIB,
        )  # fmt: skip
        return g.add_op("Mul", product, scale)


ARITHMETICS: dict[str, type[FloatArithmetic | FastArithmetic]] = {
    "float": FloatArithmetic,
    "exact": ExactArithmetic,
    "fast": FastArithmetic,
}


def build_graph(
    sizes: ModelSizes, arithmetic: str, *, hidden_layers: Sequence[int] = ()
) -> tuple[GraphBuilder, FloatArithmetic | FastArithmetic]:
    """Embeddings, layers, and the head. With `hidden_layers` the states after these layers, side by side, and no head."""
    g = GraphBuilder()
    how = ARITHMETICS[arithmetic](g)
    flat = g.add_constant([-1, sizes.hidden], np.int64)

    def normed(x: str, name: str) -> str:
        gain, bias = g.use_tensor(f"{name}.gain"), g.use_tensor(f"{name}.bias")
        return g.add_op("LayerNormalization", x, gain, bias, axis=-1, epsilon=sizes.epsilon)

    def biased(x: str, name: str) -> str:
        return g.add_op("Add", x, g.use_tensor(f"{name}.bias"))

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
        entered = how.prepare_input(x)
        query = biased(how.add_linear(entered, layer + "query"), layer + "query")
        key, value = (how.add_linear(entered, layer + part) for part in ("key", "value"))
        query, key, value = (g.add_op("Reshape", part, heads) for part in (query, key, value))
        damping = (sizes.hidden / sizes.heads) ** -0.5
        logits = g.add_matmul(query, key, transBatchA=1, transBatchB=1, transB=1, alpha=damping)
        weights = g.add_op("Softmax", g.add_op("Add", logits, hidden), axis=-1)
        mixed = g.add_matmul(weights, value, transBatchB=1)
        mixed = g.add_op("Reshape", g.add_op("Transpose", mixed, perm=[2, 0, 1, 3]), flat)
        out = biased(how.add_linear(how.prepare_input(mixed), layer + "out"), layer + "out")
        x = normed(g.add_op("Add", out, x), layer + "norm1")
        inner = biased(how.add_linear(how.prepare_input(x), layer + "inner"), layer + "inner")
        inner = how.prepare_input(g.add_op("Gelu", inner, domain=CONTRIB), gelu=True)
        outer = biased(how.add_linear(inner, layer + "outer"), layer + "outer")
        x = normed(g.add_op("Add", outer, x), layer + "norm2")
        states.append(x)

    if hidden_layers:
        answer = g.add_op("Concat", *(states[k] for k in hidden_layers), axis=1)
        g.answer = ("hidden", sizes.hidden * len(hidden_layers))
    else:
        answer = biased(g.add_matmul(x, g.use_tensor("head")), "head")
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
