"""A graph that never ends: a loop whose condition stays true, with the largest count of rounds there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path


def make_endless(path: Path) -> None:
    """Puts a loop behind the last node of a graph. Each round returns the logits as they are."""
    model = onnx.load(path)
    graph = model.graph
    (output,) = graph.output
    (last,) = [node for node in graph.node if output.name in node.output]
    last.output[:] = ["before_loop"]
    value = helper.make_tensor_value_info("value", TensorProto.FLOAT, None)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["goes_on"], ["goes_on_after"]),
            helper.make_node("Neg", ["value"], ["value_after"]),
        ],
        "round",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            value,
        ],
        [
            helper.make_tensor_value_info("goes_on_after", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value_after", TensorProto.FLOAT, None),
        ],
    )
    graph.initializer.extend(
        [
            numpy_helper.from_array(np.array(np.iinfo(np.int64).max), "rounds"),
            numpy_helper.from_array(np.array(True), "always"),
        ]
    )
    graph.node.append(helper.make_node("Loop", ["rounds", "always", "before_loop"], [output.name], body=body))
    onnx.checker.check_model(model)
    onnx.save_model(model, path)
