"""Writes a teacher's word probabilities for the made sentences: float16, words in order, no text.

    python models/teach.py --data DIR --encoder base --weights DIR --model RUN/best.pt --out TEACHER.npy

`--copies` and `--seed` decide which sentences are made; the student must be given the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from corpus import LABELS, make_sentences, read_columns
from encoders import load_encoder
from tokenized import encode_all
from tokenizers import Tokenizer
from training import predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train.tsv")
    parser.add_argument("--encoder", choices=["base", "small"], required=True)
    parser.add_argument("--weights", type=Path, required=True, help="what encoders.py wrote")
    parser.add_argument("--model", type=Path, required=True, help="best.pt of a finished run")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    sentences = list(make_sentences(read_columns(options.data / "train.tsv"), copies=options.copies, seed=options.seed))
    tokenizer = Tokenizer.from_file(str(options.weights / "tokenizer.json"))
    model = load_encoder(options.encoder, options.weights, labels=LABELS)
    model.load_state_dict(torch.load(options.model, weights_only=True))
    encoded = encode_all(tokenizer, sentences, casing=options.encoder == "small")
    answers = np.concatenate(predict(model, sentences, encoded)).astype(np.float16)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    np.save(options.out, answers)
    print(f"{len(sentences)} sentences, {len(answers)} words in {options.out}")


if __name__ == "__main__":
    main()
