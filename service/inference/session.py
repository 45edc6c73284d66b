"""An onnxruntime session of a token-classification graph: opens it with explicit threads, checks it and runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from service.errors import ModelError
from service.inference.providers import CPU_ONLY, check_started

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from service.inference.model.manifest import OrtLevel

    Ints = npt.NDArray[np.int64]

INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids")

_DTYPES: dict[str, type[np.int64 | np.int32]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}

# onnxruntime's errors have no base class in common.
RUN_ERRORS: tuple[type[Exception], ...] = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.RuntimeException,
    ort_errors.NotImplemented,
    ort_errors.EPFail,
    ort_errors.EngineError,
    RuntimeError,
    MemoryError,
)
OPEN_ERRORS: tuple[type[Exception], ...] = (
    *RUN_ERRORS,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoModel,
    ort_errors.NoSuchFile,
    ort_errors.NotFound,
)


class OnnxSession:
    """Runs a graph: token ids in, logits out."""

    def __init__(
        self,
        path: Path,
        *,
        width: int,
        threads: int,
        level: OrtLevel,
        pad_id: int,
        providers: Sequence[str] = CPU_ONLY,
    ) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 4
        # Threads that spin while they wait take cores from other workers.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.graph_optimization_level = (
            ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
            if level == "basic"
            else ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        )
        try:
            self._session = ort.InferenceSession(str(path), options, providers=list(providers))
        except OPEN_ERRORS as error:
            raise ModelError(
                f"{path} is not a graph that onnxruntime can open ({describe_error(error)}): export it again"
            ) from error
        check_started(providers, self._session.get_providers())
        self._path = path
        self._pad_id = pad_id
        self._width = width
        self._input_dtypes = self._check_inputs()
        self._output_name = self._check_output()

    @property
    def has_token_types(self) -> bool:
        return "token_type_ids" in self._input_dtypes

    def run(self, ids: Sequence[Ints], token_types: Sequence[Ints] | None) -> npt.NDArray[Any]:
        """The logits [batch, longest, classes] of sequences, which are padded to the longest of them."""
        lengths = np.fromiter((len(row) for row in ids), np.intp, len(ids))
        mask = np.arange(lengths.max()) < lengths[:, None]
        feeds: dict[str, npt.NDArray[Any]] = {}
        for name, dtype in self._input_dtypes.items():
            if name == "attention_mask":
                feeds[name] = mask.astype(dtype)
                continue
            rows, fill = (ids, self._pad_id) if name == "input_ids" else (token_types, 0)
            padded = np.full(mask.shape, fill, dtype)
            if rows is not None:
                padded[mask] = np.concatenate(rows)
            feeds[name] = padded
        logits: npt.NDArray[Any] = self._session.run([self._output_name], feeds)[0]
        return logits

    def warm_up(self, ids: Ints) -> None:
        """Runs once, to allocate memory and to reject a graph with another output shape at start."""
        try:
            logits = self.run([ids], None)
        except RUN_ERRORS as error:
            raise ModelError(
                f"{self._path} fails on an ordinary sequence of {len(ids)} ids up to {ids.max()} ({describe_error(error)}): "
                "graph and tokenizer.json may belong to different models; export both again"
            ) from error
        expected = (1, len(ids), self._width)
        if logits.shape != expected:
            raise ModelError(
                f"{self._path} answers in the shape {list(logits.shape)} where {list(expected)} (batch, tokens, labels) is "
                "expected: the folder's labels must match the model's classes, and the model must classify tokens"
            )

    def _check_inputs(self) -> dict[str, type[np.int64 | np.int32]]:
        inputs = {argument.name: argument for argument in self._session.get_inputs()}
        if "input_ids" not in inputs:
            raise ModelError(
                f"{self._path} has no input `input_ids` (it has {', '.join(inputs) or 'none'}): export it for token classification"
            )
        dtypes = {}
        for name, argument in inputs.items():
            if name not in INPUT_NAMES:
                raise ModelError(
                    f"{self._path} wants an input `{name}`: export it with no other inputs than {', '.join(INPUT_NAMES)}"
                )
            if argument.type not in _DTYPES:
                raise ModelError(
                    f"{self._path} takes `{name}` as {argument.type}: export it with int64 or int32 inputs"
                )
            if any(isinstance(size, int) for size in argument.shape):
                raise ModelError(
                    f"{self._path} takes `{name}` in the fixed shape {argument.shape}: export it with dynamic axes for batch and sequence"
                )
            dtypes[name] = _DTYPES[argument.type]
        return dtypes

    def _check_output(self) -> str:
        outputs = self._session.get_outputs()
        logits = next((output for output in outputs if output.name == "logits"), outputs[0])
        if logits.shape and len(logits.shape) != 3:
            raise ModelError(
                f"{self._path} answers `{logits.name}` with {len(logits.shape)} dimensions where (batch, tokens, labels) is "
                "expected: export the model for token classification"
            )
        width = logits.shape[2] if logits.shape else None
        if isinstance(width, int) and width != self._width:
            raise ModelError(
                f"{self._path} has {width} outputs a token and the folder names {self._width} labels: "
                "give id2label (or the manifest's labels) exactly one name for each output"
            )
        return str(logits.name)


def describe_error(error: Exception) -> str:
    """The first line of an error, cut to 200 characters."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"
