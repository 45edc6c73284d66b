"""The file of weights that the graphs of a folder share. An initializer of a graph says where in it a tensor lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ALIGNMENT = 64


def write_weights(tensors: Mapping[str, np.ndarray], path: Path) -> dict[str, onnx.TensorProto]:
    """One file with all tensors, and for each the initializer that points into it."""
    places: dict[str, onnx.TensorProto] = {}
    with path.open("wb") as out:
        for name, value in tensors.items():
            out.write(b"\0" * (-out.tell() % ALIGNMENT))
            data = np.ascontiguousarray(value).tobytes()
            place = TensorProto(name=name, dims=value.shape, data_location=TensorProto.EXTERNAL)
            place.data_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            for key, entry in (("location", path.name), ("offset", out.tell()), ("length", len(data))):
                place.external_data.add(key=key, value=str(entry))
            places[name] = place
            out.write(data)
    return places


def read_places(graph: Path) -> dict[str, onnx.TensorProto]:
    """The initializers of a graph that point into its file of weights."""
    found = onnx.load(str(graph), load_external_data=False).graph.initializer
    return {place.name: place for place in found if place.data_location == TensorProto.EXTERNAL}


def multiply_out(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors of a weights file in fp32: int8 values times their scales."""
    plain = {name: value for name, value in tensors.items() if not name.endswith((".values", ".scale"))}
    for name in [name.removesuffix(".values") for name in tensors if name.endswith(".values")]:
        plain[name] = tensors[f"{name}.values"].astype(np.float32) * tensors[f"{name}.scale"]
    return plain
