"""What goes into the matrices of a model on real sentences, and the ranges that hold it in 8 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime
from arithmetic import MAX_CODE, ActivationRange, FloatArithmetic
from graphs import ModelSizes, Tensors, assemble_model, build_graph
from onnx import TensorProto, numpy_helper
from verify import pad_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenized import TokenizedSentence

# By the first matrix that reads them: the answers of layer norms and attention. GELU's keep a scale for each row: fixed ones
# gain little there, and cost the most on text that is unlike the training sentences.
FIXED_INPUTS = (".query", ".out", ".inner")
# Further columns take 3 % of the graph's speed for `inner`, whose widest channel is up to ten times as large as the others: without them
# the mean change of a probability is 1.6 times as large on German text. They would take 1 % more for `query`, where it is twice as large.
WIDE_INPUTS = (".inner",)
MARGIN = 1.05  # over the largest value seen
WIDE = 1.15  # a channel this many times as large as all others is kept out of the range
SHARES = (1, 0.9, 0.8, 0.7, 0.6, 0.5)
SAMPLE = 400_000


def iter_activations(
    sizes: ModelSizes, tensors: Tensors, sentences: Sequence[TokenizedSentence]
) -> Iterator[dict[str, np.ndarray]]:
    """For each sentence what goes into each matrix, [subwords, n], in fp32."""
    graph, how = build_graph(sizes, "float", hidden_layers=() if "head" in tensors else (sizes.layers,))
    assert isinstance(how, FloatArithmetic)
    model = assemble_model(graph, {name: numpy_helper.from_array(tensors[name], name) for name in graph.tensors})
    taps = list(dict.fromkeys(how.matrix_inputs.values()))
    model.graph.output.extend(onnx.helper.make_tensor_value_info(tap, TensorProto.FLOAT, None) for tap in taps)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for sentence in sentences:
        values = dict(zip(taps, session.run(taps, pad_batch([sentence])), strict=True))
        yield {name: values[tap] for name, tap in how.matrix_inputs.items()}


def measure_ranges(
    sizes: ModelSizes, tensors: Tensors, sentences: Sequence[TokenizedSentence]
) -> dict[str, ActivationRange]:
    """The range of what goes into each matrix, by the first matrix that reads it."""
    seen: dict[str, list[np.ndarray]] = {}
    for values in iter_activations(sizes, tensors, sentences):
        for name, rows in values.items():
            if name.endswith(FIXED_INPUTS):
                seen.setdefault(name, []).append(rows)
    return {name: choose_range(np.concatenate(parts), wide=name.endswith(WIDE_INPUTS)) for name, parts in seen.items()}


def choose_range(rows: np.ndarray, *, wide: bool) -> ActivationRange:
    """The range with the least squared error, the widest channel left out if `wide` and if it is far larger than all others."""
    tops = rows.max(0)
    widest = int(tops.argmax())
    rest = float(np.delete(tops, widest).max())
    wide = wide and bool(tops[widest] > WIDE * rest)
    limit = rest if wide else float(tops[widest])
    rng = np.random.default_rng(0)
    kept = np.delete(rows, widest, axis=1) if wide else rows
    sample = rng.choice(kept.ravel(), min(kept.size, SAMPLE), replace=False)
    candidates = [make_range(rows.min() * MARGIN * low, limit * MARGIN * high) for low in SHARES for high in SHARES]
    best = min(candidates, key=lambda each: compute_error(sample, each))
    if not wide:
        return best
    columns = int(np.ceil(tops[widest] * MARGIN / best.top)) - 1
    return ActivationRange(best.scale, best.zero_point, widest, columns)


def make_range(low: float, high: float) -> ActivationRange:
    scale = float(np.float32((high - low) / MAX_CODE))
    return ActivationRange(scale, int(np.clip(np.rint(-low / scale), 0, MAX_CODE)))


def compute_error(values: np.ndarray, chosen: ActivationRange) -> float:
    codes = np.clip(np.rint(values / chosen.scale), -chosen.zero_point, MAX_CODE - chosen.zero_point)
    return float(np.mean((codes * chosen.scale - values) ** 2))
