"""The fixed ranges of the int8 graphs: they are chosen by their error, and a channel far wider than the others costs no precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.model_scripts import import_scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = ("arithmetic", "activations")
CHANNELS, COLUMNS, WIDE = 24, 16, 5


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, Any]]:
    with import_scripts(*MODULES) as modules:
        yield modules


def make_rows(largest: float) -> np.ndarray:
    """Rows within ±1, but for one channel that some rows have up to `largest`."""
    rows = np.random.default_rng(1).uniform(-1, 1, (400, CHANNELS)).astype(np.float32)
    rows[::10, WIDE] = np.linspace(1, largest, 40)
    return rows


def multiply(scripts: dict[str, Any], rows: np.ndarray, chosen: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the int8 arithmetic answers, and what it should."""
    rng = np.random.default_rng(2)
    tensors: dict[str, np.ndarray] = {
        "m.values": rng.integers(-63, 64, (CHANNELS, COLUMNS)).astype(np.int8),
        "m.scale": rng.uniform(0.01, 0.02, COLUMNS).astype(np.float32),
        "m.bias": rng.normal(size=COLUMNS).astype(np.float32),
    }
    graph = scripts["arithmetic"].GraphBuilder()
    how = scripts["arithmetic"].FastArithmetic(graph, {"m": chosen})
    answer = how.add_linear(how.prepare_input("x", "m"), "m", bias=True)
    body = helper.make_graph(
        graph.nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", CHANNELS])],
        [helper.make_tensor_value_info(answer, TensorProto.FLOAT, ["rows", COLUMNS])],
        [*graph.constants.values(), *(numpy_helper.from_array(tensors[name], name) for name in graph.tensors)],
    )
    versions = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=versions, ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = rows @ (tensors["m.values"] * tensors["m.scale"]) + tensors["m.bias"]
    return session.run(None, {"x": rows})[0], wanted


def test_further_columns_hold_what_a_wide_channel_has_above_the_range(scripts: dict[str, Any]) -> None:
    rows = make_rows(30)
    chosen = scripts["activations"].choose_range(rows, wide=True)
    assert chosen.wide == WIDE
    assert chosen.top < 1.1
    assert chosen.top * (chosen.columns + 1) >= 30
    found, wanted = multiply(scripts, rows, chosen)
    # Half a step in each of the channels and further columns, at the largest weight: nothing is cut off.
    assert np.abs(found - wanted).max() < chosen.scale / 2 * (CHANNELS + chosen.columns) * 63 * 0.02
    kept_in_range = scripts["activations"].choose_range(rows, wide=False)
    assert kept_in_range.columns == 0
    coarse, _ = multiply(scripts, rows, kept_in_range)
    assert np.abs(coarse - wanted).mean() > 4 * np.abs(found - wanted).mean()


def test_no_column_is_added_if_all_channels_are_alike(scripts: dict[str, Any]) -> None:
    rows = make_rows(1)
    chosen = scripts["activations"].choose_range(rows, wide=True)
    assert chosen.columns == 0
    found, wanted = multiply(scripts, rows, chosen)
    assert np.abs(found - wanted).max() < chosen.scale / 2 * CHANNELS * 63 * 0.02


def test_values_beyond_the_range_are_cut_off(scripts: dict[str, Any]) -> None:
    chosen = scripts["activations"].make_range(-1.0, 1.0)
    inside, _ = multiply(scripts, np.full((1, CHANNELS), chosen.top, np.float32), chosen)
    beyond, _ = multiply(scripts, np.full((1, CHANNELS), 50, np.float32), chosen)
    assert (inside == beyond).all()
