"""The three arithmetics that the graphs are written in.

float  plain fp32, for calibration
exact  int8 weights that onnxruntime turns into fp32 when it loads them, fp32 arithmetic
fast   int8 weights and int8 activations. The scale of an activation is a constant, or one a row: in both cases a row's
       answer depends on that row alone

Constant scales are faster: nothing is reduced to find them, and the multiplication puts them and the bias back in by
itself. What comes out of layer norms and attention has one. GELU has one a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INPUTS = ("input_ids", "token_type_ids", "attention_mask")
CONTRIB = "com.microsoft"
MAX_WEIGHT = 63  # AVX2 adds two uint8 × int8 products in 16 bits: 2 × 255 × 63 fits, 2 × 255 × 127 saturates
MAX_CODE = 255
ZERO_POINT = 128
GELU_ZERO_POINT = 16  # GELU is never under -0.17, so nearly all of the 8 bits can go to what is above zero
GELU_MIN = 0.17


@dataclass(frozen=True)
class ActivationRange:
    """How what goes into a matrix is rounded to 8 bits: by `scale`, zero at `zero_point`, and what is beyond is cut off.

    One channel of [CLS] and [SEP] is up to ten times as large as all others. A range that holds it would leave the others
    with too few steps, so what is cut off of the channel `wide` is added as `columns` further columns, each one range
    high, which meet copies of the same row of the matrix.
    """

    scale: float
    zero_point: int
    wide: int = 0
    columns: int = 0

    @property
    def top(self) -> float:
        return (MAX_CODE - self.zero_point) * self.scale


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

    def add_constant(self, value: float | list[int] | list[float], kind: type = np.float32) -> str:
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

    def prepare_input(
        self, x: str, name: str, *, gelu: bool = False, reshape: Callable[[str], str] | None = None
    ) -> str:  # the int8 arithmetic needs the other arguments
        del name, gelu
        return reshape(x) if reshape else x

    def add_linear(self, x: str, name: str, *, bias: bool = False) -> str:
        self.matrix_inputs[name] = x
        product = self.graph.add_matmul(x, self.add_weight(name))
        return self.graph.add_op("Add", product, self.graph.use_tensor(f"{name}.bias")) if bias else product

    def add_weight(self, name: str) -> str:
        return self.graph.use_tensor(name)

    def add_gelu(self, x: str) -> str:
        return self.graph.add_op("Gelu", x, domain=CONTRIB)


class ExactArithmetic(FloatArithmetic):
    """fp32 arithmetic on int8 weights."""

    def add_weight(self, name: str) -> str:
        return self.graph.add_dequantized(name)


@dataclass(frozen=True)
class PackedInput:
    """Names of 8-bit rows and of what it takes to multiply them; `row_scale` if each row has a scale of its own."""

    codes: str
    zero_point: str
    scale: str
    row_scale: str = ""
    copied_rows: str = ""


class FastArithmetic:
    """int8 arithmetic. Inputs without a range get a scale for each row, which comes back in after the multiplication."""

    def __init__(self, graph: GraphBuilder, ranges: Mapping[str, ActivationRange]) -> None:
        self.graph = graph
        self.ranges = ranges
        self.row_zero_points: dict[int, str] = {}

    def prepare_input(
        self, x: str, name: str, *, gelu: bool = False, reshape: Callable[[str], str] | None = None
    ) -> PackedInput:
        """`reshape` makes rows of an input that has another shape; a quarter of the bytes move if that is done last."""
        if name in self.ranges:
            packed = self._pack_in_range(x, self.ranges[name])
            return replace(packed, codes=reshape(packed.codes)) if reshape else packed
        return self._pack_by_row(reshape(x) if reshape else x, gelu=gelu)

    def _pack_in_range(self, x: str, chosen: ActivationRange) -> PackedInput:
        g = self.graph
        scale, zero = g.add_constant(chosen.scale), g.add_constant(chosen.zero_point, np.uint8)
        codes = g.add_op("QuantizeLinear", x, scale, zero)
        if not chosen.columns:
            return PackedInput(codes, zero, scale)
        wide = g.add_op("Slice", x, *(g.add_constant([n], np.int64) for n in (chosen.wide, chosen.wide + 1, 1)))
        steps = g.add_constant([chosen.top * (n + 1) for n in range(chosen.columns)])
        rest = g.add_op("QuantizeLinear", g.add_op("Relu", g.add_op("Sub", wide, steps)), scale, zero)
        copied = g.add_constant([chosen.wide] * chosen.columns, np.int64)
        return PackedInput(g.add_op("Concat", codes, rest, axis=1), zero, scale, copied_rows=copied)

    def _pack_by_row(self, x: str, *, gelu: bool) -> PackedInput:
        g = self.graph
        last = g.add_constant([-1], np.int64)
        largest = g.add_op("ReduceMax", x, last, keepdims=0)
        if gelu:
            scale = g.add_op("Mul", largest, g.add_constant(1 / (MAX_CODE - GELU_ZERO_POINT)))
            scale = g.add_op("Max", scale, g.add_constant(GELU_MIN / GELU_ZERO_POINT))
        else:
            least = g.add_op("Neg", g.add_op("ReduceMin", x, last, keepdims=0))
            scale = g.add_op(
                "Mul",
                g.add_op("Max", largest, least, g.add_constant(1e-9)),
                g.add_constant(1 / (MAX_CODE - ZERO_POINT)),
            )
        zero = GELU_ZERO_POINT if gelu else ZERO_POINT
        codes = g.add_op("QuantizeLinear", x, scale, self._repeat_by_row(zero), axis=0)
        row_scale = g.add_op("Unsqueeze", scale, g.add_constant([1], np.int64))
        return PackedInput(codes, g.add_constant(zero, np.uint8), g.add_constant(1.0), row_scale)

    def _repeat_by_row(self, zero: int) -> str:
        if zero not in self.row_zero_points:
            g = self.graph
            rows = g.add_op("Unsqueeze", g.add_op("Size", INPUTS[0]), g.add_constant([0], np.int64))
            self.row_zero_points[zero] = g.add_op("Expand", g.add_constant(zero, np.uint8), rows)
        return self.row_zero_points[zero]

    def add_linear(self, x: PackedInput, name: str, *, bias: bool = False) -> str:
        g = self.graph
        values = g.use_tensor(f"{name}.values")
        if x.copied_rows:  # of constants, so onnxruntime does it once, at load
            values = g.add_op("Concat", values, g.add_op("Gather", values, x.copied_rows, axis=0), axis=0)
        inputs = [x.codes, values, x.scale, g.use_tensor(f"{name}.scale"), x.zero_point, g.add_constant(0, np.int8)]
        biases = [g.use_tensor(f"{name}.bias")] if bias else []
        if not x.row_scale:
            return g.add_op("MatMulIntegerToFloat", *inputs, *biases, domain=CONTRIB)
        product = g.add_op("Mul", g.add_op("MatMulIntegerToFloat", *inputs, domain=CONTRIB), x.row_scale)
        return g.add_op("Add", product, *biases) if biases else product

    def add_gelu(self, x: str) -> str:
        """GELU by tanh, which is faster than by erf and differs by less than the 8 bits that follow can show."""
        return self.graph.add_op("FastGelu", x, domain=CONTRIB)
