"""Extracts the encoder states of words, a portion of sentences at a time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from service.errors import InferenceError
from service.inference.classifier import PROBE_LENGTHS
from service.inference.features.states import pool_states
from service.inference.graph_runner import GraphRunner, to_float64
from service.inference.providers import CPU_ONLY
from service.inference.tokenization.encoder import Encoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from service.inference.model.encoder_folder import EncoderFolder

    States = npt.NDArray[np.float32]

PORTION = 256


class WordStateExtractor:
    """Runs the encoder over sentences. A sentence that the encoder fails on gets zeros."""

    def __init__(self, folder: EncoderFolder, *, threads: int, providers: Sequence[str] = CPU_ONLY) -> None:
        self._encoder = Encoder(folder)
        self.width = folder.state_width
        self._runner = GraphRunner(
            folder.get_graph(),
            self._encoder.build_probes(PROBE_LENGTHS),
            width=folder.state_width,
            pad_id=self._encoder.pad_id,
            ort_level=folder.manifest.ort_level,
            threads=threads,
            providers=providers,
            exactly_invariant=folder.manifest.invariant == "exact",
            normalize=to_float64,
        )

    def extract(self, sentences: Iterable[Sequence[str]]) -> Iterator[States]:
        """The states [n, W] of each sentence's words, in order."""
        remaining = iter(sentences)
        while portion := list(islice(remaining, PORTION)):
            encoded = self._encoder.encode(portion)
            outputs = iter(self._runner.run([window for sentence in encoded for window in sentence.windows]))
            for sentence in encoded:
                parts = list(islice(outputs, len(sentence.windows)))
                rows = [part for part in parts if not isinstance(part, InferenceError)]
                if len(rows) < len(parts) or not rows:
                    yield np.zeros((sentence.n_words, self.width), np.float32)
                else:
                    yield pool_states(np.concatenate(rows), sentence.overlaps, sentence.n_words)
