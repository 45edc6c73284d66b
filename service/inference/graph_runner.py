"""Runs windows of subwords through a graph in batches: the same outputs whatever shares a batch, failures isolated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from service.contracts.defaults import BATCH_TOKENS
from service.errors import InferenceError, ModelError
from service.inference.batch_plan import DEFAULT_MAX_BATCH, plan_batches
from service.inference.providers import CPU_ONLY
from service.inference.session import RUN_ERRORS, OnnxSession, describe_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from service.inference.model.manifest import OrtLevel
    from service.inference.tokenization.encoder import TokenWindow

    WindowOutput = npt.NDArray[Any] | InferenceError

MAX_BATCH_DEVIATION = 1e-4  # how far outputs may move with batch mates in a model that somebody brings

Batching = Literal["planned", "single"]


class GraphRunner:
    """Runs windows in planned batches. Safe to use from several threads.

    `batch_deviation` is the largest change of an output with batch mates that the self-test saw (None if it did not
    run). `batching` is "planned", or "single" if that change is too large and each window runs alone. `on_run`, if set,
    is called after each run with its sequences, their tokens, and the tokens with padding.
    """

    def __init__(
        self,
        graph: Path,
        probes: Sequence[TokenWindow],
        *,
        width: int,
        pad_id: int,
        ort_level: OrtLevel,
        threads: int,
        exactly_invariant: bool,
        normalize: Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]],
        batch_tokens: int = BATCH_TOKENS,
        max_batch: int = DEFAULT_MAX_BATCH,
        self_test: bool = True,
        providers: Sequence[str] = CPU_ONLY,
    ) -> None:
        """`width`: outputs per token. `normalize` turns outputs into what the self-test compares."""
        self._graph = graph
        self.session = OnnxSession(
            graph, width=width, threads=threads, level=ort_level, pad_id=pad_id, providers=providers
        )
        self.on_run: Callable[[int, int, int], None] | None = None
        self._batch_tokens = batch_tokens
        self._max_batch = max_batch
        self._probes = probes
        self.session.warm_up(probes[-1].ids)
        self.batch_deviation = self._measure_batch_deviation(normalize) if self_test else None
        # A few probes see less than a stream will, so they must stay well inside what is allowed.
        limit = 0.0 if exactly_invariant else MAX_BATCH_DEVIATION / 4
        # `not <=` rather than `>`: a model that answers NaN is not invariant either
        self.batching: Batching = (
            "single" if self.batch_deviation is not None and not self.batch_deviation <= limit else "planned"
        )

    def run(self, windows: Sequence[TokenWindow]) -> list[WindowOutput]:
        """The outputs of each window's own subwords, or the error of a window that fails alone."""
        outputs: list[WindowOutput] = [InferenceError("not run")] * len(windows)
        for batch in self._plan_batches([len(window.ids) for window in windows]):
            self._run_batch(windows, batch, outputs)
        return outputs

    def _plan_batches(self, lengths: Sequence[int]) -> list[list[int]]:
        if self.batching == "single":
            return [[index] for index in range(len(lengths))]
        return plan_batches(lengths, batch_tokens=self._batch_tokens, max_batch=self._max_batch)

    def _run_batch(self, windows: Sequence[TokenWindow], batch: Sequence[int], outputs: list[WindowOutput]) -> None:
        """Fills in the outputs of the batch's windows; a batch that fails is halved until the failing window is alone."""
        try:
            answer = self._run_windows([windows[index] for index in batch])
        except RUN_ERRORS as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                self._run_batch(windows, batch[:middle], outputs)
                self._run_batch(windows, batch[middle:], outputs)
                return
            self._check_session_alive(error)
            outputs[batch[0]] = InferenceError(f"the model fails on this sentence alone: {describe_error(error)}")
            return
        if self.on_run is not None:
            self.on_run(len(batch), sum(len(windows[index].ids) for index in batch), answer.shape[0] * answer.shape[1])
        for row, index in enumerate(batch):
            window = windows[index]
            outputs[index] = answer[row, window.keep_start : window.keep_end]

    def _check_session_alive(self, error: Exception) -> None:
        """Raises ModelError if the session fails on everything: then the sentence is not to blame."""
        try:
            self._run_windows(self._probes[:1])
        except RUN_ERRORS:
            raise ModelError(
                f"the session of {self._graph} answers no more: {describe_error(error)}; restart"
            ) from error

    def _run_windows(self, windows: Sequence[TokenWindow]) -> npt.NDArray[Any]:
        types = [window.token_types for window in windows if window.token_types is not None] or None
        return self.session.run([window.ids for window in windows], types)

    def _measure_batch_deviation(self, normalize: Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]]) -> float:
        """The largest change of an output between sequences alone, and padded beside longer and shorter ones."""
        alone = [normalize(self._run_windows([probe])[0]) for probe in self._probes]
        worst = 0.0
        for mates in (range(len(alone)), range(2), range(0, len(alone), 2)):
            together = self._run_windows([self._probes[index] for index in mates])
            for row, index in enumerate(mates):
                change = np.abs(normalize(together[row, : len(alone[index])]) - alone[index]).max()
                worst = float(np.maximum(worst, change))  # unlike max(), keeps a NaN
        return worst


def to_float64(states: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The `normalize` of hidden states, which the self-test compares as they are."""
    return states.astype(np.float64)
