"""What a team would put together without labelwatch: transformers' pipeline for the probabilities, cleanlab for the scores.

The weights are those of the default model, in fp32. One sentence at a time, as a request brings it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from cleanlab.token_classification import rank
from transformers import PreTrainedTokenizerFast

from models.shipped import load_shipped_model
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from tests.bench.peers import WordPipeline
from tests.bench.services.port import THREADS

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ISSUE_SCORE = 0.5


class PlainAssessor:
    """Scores the labels of one sentence."""

    def __init__(self) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        torch.set_num_threads(THREADS)
        folder = ModelFolder.load(find_default_model())
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(folder.tokenizer),
            pad_token="[PAD]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            unk_token="[UNK]",
        )
        self._pipeline = WordPipeline(
            model=load_shipped_model(folder.path / "model.exact.onnx", folder.labels), tokenizer=tokenizer
        )
        self._classes = {label: number for number, label in enumerate(folder.labels)}

    def assess(self, tokens: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
        given = [self._classes[label] for label in labels]
        probs = self._pipeline([list(tokens)])[0]
        scores, token_scores = rank.get_label_quality_scores([given], [probs])
        words = token_scores[0].to_numpy()
        names = list(self._classes)
        issues = [
            {"word": int(place), "score": float(words[place]), "suggested": names[int(probs[place].argmax())]}
            for place in np.flatnonzero(words < MAX_ISSUE_SCORE)
        ]
        return {"score": float(scores[0]), "issues": issues}
