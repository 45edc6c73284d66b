"""How well a model trained on the audited data itself finds its errors, beside the default model.

The data is CoNLL-2003 test and dev as one data set with its given labels; the errors are those that the corrected test set
names. LABELWATCH_CONLL names the folder with `test.tsv`, `test.corrected.tsv` and `dev.tsv`. A copy with other names for the
types must give the same figures to the bit.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.evaluation.data import UNMERGED
from service.evaluation.from_model import build_evaluation_data
from service.evaluation.metrics import auprc, auroc
from service.evaluation.runs import PRIORITY, judge_batch, judge_stream
from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_encoder, find_default_model
from service.inference.model.encoder_folder import EncoderFolder
from service.inference.model.folder import ModelFolder
from service.labels import Scheme
from service.training.sentences import collect_sentences
from service.training.trainer import train_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.contracts import LabelledSentence

    Figures = dict[str, float]

THREADS = 2
OTHER_NAMES = {"PER": "ACTOR", "ORG": "BODY", "LOC": "ZONE", "MISC": "KIND"}  # not in the order of the old ones


def rename_types(sentences: Sequence[LabelledSentence]) -> list[LabelledSentence]:
    def rename(label: str) -> str:
        prefix, dash, name = label.partition("-")
        return f"{prefix}{dash}{OTHER_NAMES[name]}" if dash else label

    return [each.model_copy(update={"labels": tuple(map(rename, each.labels))}) for each in sentences]


def train_on(sentences: Sequence[LabelledSentence], out: Path) -> ModelFolder:
    data = collect_sentences(sentences, Scheme.IOB2)
    train_model(data, out, name=out.name, encoder=EncoderFolder.load(find_default_encoder()), threads=THREADS)
    return ModelFolder.load(out)


def measure(folder: ModelFolder, given: Sequence[LabelledSentence], corrected: Sequence[LabelledSentence]) -> Figures:
    """AUPRC and AUROC of `priority` over the sentences, judged as a whole and as a stream."""
    results = Classifier(folder, threads=THREADS).infer_stream(each.tokens for each in given)
    data = build_evaluation_data(folder, given, corrected, results, name=folder.name)
    variant = data.build_variant(UNMERGED)
    figures = {}
    for run in (judge_batch(variant), judge_stream(variant)):
        scores = run.compute_sentence_scores(PRIORITY)
        figures[f"{run.mode}_auprc"] = auprc(scores, variant.wrong_sentences)
        figures[f"{run.mode}_auroc"] = auroc(scores, variant.wrong_sentences)
    return figures


def run() -> list[dict[str, Any]]:
    if not os.environ.get("LABELWATCH_CONLL"):
        raise SystemExit(
            "set LABELWATCH_CONLL to the folder with CoNLL-2003's test.tsv, test.corrected.tsv and dev.tsv"
        )
    folder = Path(os.environ["LABELWATCH_CONLL"])
    given, corrected, dev = (list(read_sentences(folder / f"{name}.tsv")) for name in ("test", "test.corrected", "dev"))
    with tempfile.TemporaryDirectory() as scratch:
        own = measure(train_on([*given, *dev], Path(scratch) / "own"), given, corrected)
        others = [rename_types(each) for each in (given, corrected, dev)]
        renamed = measure(train_on([*others[0], *others[2]], Path(scratch) / "renamed"), others[0], others[1])
    default = measure(ModelFolder.load(find_default_model()), given, corrected)
    what = f"AUPRC of priority, own {own['stream_auprc']:.3f}, default model {default['stream_auprc']:.3f}"
    return [
        {
            "name": "own_labels_vs_default",
            "ratio": own["stream_auprc"] / default["stream_auprc"],
            "detail": {"own": own, "default": default, "sentences": len(given) + len(dev), "what": what},
        },
        {
            "name": "own_labels_renamed",
            "ratio": max(abs(own[key] - renamed[key]) for key in own),
            "detail": {
                "renamed": renamed,
                "what": "largest change of a figure when the types are renamed: 0 to the bit",
            },
        },
    ]
