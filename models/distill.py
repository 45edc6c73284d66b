"""Trains the small model on its teachers' word probabilities over the made sentences; dev chooses the epoch.

    python models/distill.py --data DIR --weights DIR --teacher base.npy:0.7 --teacher small1.npy:0.3 --out DIR
    python models/distill.py --data DIR --model models/default --layers 0 1 3 5 --teacher teachers.npz:1 --out DIR

The second form makes a student with fewer layers: it starts from these layers of a finished folder.

`--keep FILE.npz` writes the teachers' mean in a form small enough to be kept beside the scripts; `--teacher FILE.npz:1`
then stands for all of them.
Targets are LABEL_SHARE of the label and the rest of the teachers' weighted mean. Dev chooses by F1 and by how well
planted label errors are found, half and half. Interrupted, the same command goes on from the last checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from corpus import LABELS, Sentence, digest, make_sentences, read_columns
from encoders import load_encoder
from manifest import FILES
from noise import detection
from shipped import load_shipped_model
from tokenized import encode_all
from tokenizers import Tokenizer
from training import Trainer, TrainingPlan, evaluate_f1, make_hard_targets, predict, save_if_best

LABEL_SHARE = 0.3


def average_teachers(teachers: list[str], made: list[Sentence]) -> np.ndarray:
    total, weight = np.zeros(0), 0.0
    words = sum(len(sentence.words) for sentence in made)
    for teacher in teachers:
        path, _, share = teacher.rpartition(":")
        loaded = np.load(path)
        if path.endswith(".npz") and str(loaded["sentences"]) != digest(made):
            raise SystemExit(
                f"{path} was made for other sentences: another train.tsv, or other --copies or --made-seed"
            )
        probs = (loaded["probs"] if path.endswith(".npz") else loaded).astype(np.float32)
        if len(probs) != words:
            raise SystemExit(f"{path} has probabilities of {len(probs)} words where {words} are needed")
        total = float(share) * probs if weight == 0 else total + float(share) * probs
        weight += float(share)
    return total / total.sum(1, keepdims=True)


def save_mean(mean: np.ndarray, made: list[Sentence], path: Path) -> None:
    """Half precision, and nothing under 1e-4: a third of the size, and no target moves by more than that."""
    probs = np.where(mean < 1e-4, 0, mean).astype(np.float16)
    np.savez_compressed(path, probs=probs, sentences=np.array(digest(made)))


def add_student_options(parser: argparse.ArgumentParser) -> None:
    """What the student starts from."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--weights", type=Path, help="what encoders.py wrote for the small encoder")
    source.add_argument("--model", type=Path, help="a finished model folder to start from")
    parser.add_argument(
        "--layers", type=int, nargs="+", metavar="N", help="the layers of --model to keep (default: all)"
    )


def load_student(weights: Path | None, folder: Path | None, layers: list[int] | None) -> torch.nn.Module:
    if folder is None:
        return load_encoder("small", weights, labels=LABELS)
    model = load_shipped_model(folder / FILES["exact"], LABELS, layers=layers)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    add_student_options(parser)
    parser.add_argument("--teacher", action="append", required=True, metavar="FILE:WEIGHT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, metavar="FILE.npz", help="write the teachers' mean here and stop")
    parser.add_argument("--start", type=Path, help="start from this best.pt instead of the bare encoder")
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--made-seed", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bfloat16", action="store_true", help="twice as fast on CPUs with AVX-512 BF16")
    options = parser.parse_args()

    train, dev = read_columns(options.data / "train.tsv"), read_columns(options.data / "dev.tsv")
    made = list(make_sentences(train, copies=options.copies, seed=options.made_seed))
    mean = average_teachers(options.teacher, made)
    if options.keep:
        save_mean(mean, made, options.keep)
        return
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    plan = TrainingPlan(options.epochs, 32, options.rate, 1e-3, options.seed, bfloat16=options.bfloat16)
    taught = np.split(mean, np.cumsum([len(s.words) for s in made])[:-1])
    targets = [
        LABEL_SHARE * label + (1 - LABEL_SHARE) * soft
        for label, soft in zip(make_hard_targets(made), taught, strict=True)
    ]
    tokenizer = Tokenizer.from_file(str((options.weights or options.model) / "tokenizer.json"))
    encoded, dev_encoded = encode_all(tokenizer, made, casing=True), encode_all(tokenizer, dev, casing=True)
    model = load_student(options.weights, options.model, options.layers)
    if options.start:
        model.load_state_dict(torch.load(options.start, weights_only=True))
    trainer = Trainer(model, plan, options.out, plan.epochs * -(-len(made) // plan.batch))
    for epoch in trainer.run(encoded, targets):
        trainer.swap_average()
        probs = predict(model, dev, dev_encoded)
        f1, found = evaluate_f1(dev, probs), detection(dev, probs)
        print(f"epoch {epoch}: dev F1 {f1:.4f}, planted errors found with average precision {found:.4f}", flush=True)
        figures = {"epoch": epoch, "dev_f1": f1, "dev_detection": found, "choice": (f1 + found) / 2}
        save_if_best(options.out, model, figures, by="choice")
        trainer.swap_average()


if __name__ == "__main__":
    main()
