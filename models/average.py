"""The mean of the weights of two students, the later one counting more; dev says whether it is better than either.

    python models/average.py --data DIR --weights DIR --first first/best.pt --second second/best.pt --out DIR
    python models/average.py --data DIR --model models/default --layers 0 1 3 5 --first … --second … --share .5 --out DIR

The second form is for a student with fewer layers, which started from these layers of a finished folder.

Two passes over the same sentences end at different places around one low point; between them the model is less sure
of what only one of them has learned.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from corpus import read_columns
from distill import add_student_options, load_student
from noise import detection
from tokenized import encode_all
from tokenizers import Tokenizer
from training import evaluate_f1, predict, save_if_best

SHARE = 0.6  # of the second, by dev: .4, .5 and .6 were tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev.tsv")
    add_student_options(parser)
    parser.add_argument("--first", type=Path, required=True)
    parser.add_argument("--second", type=Path, required=True)
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    dev = read_columns(options.data / "dev.tsv")
    tokenizer = Tokenizer.from_file(str((options.weights or options.model) / "tokenizer.json"))
    encoded = encode_all(tokenizer, dev, casing=True)
    model = load_student(options.weights, options.model, options.layers)
    first, second = (torch.load(path, weights_only=True) for path in (options.first, options.second))
    for name, share in (("first", 0.0), ("second", 1.0), ("mean", options.share)):
        model.load_state_dict(
            {
                key: torch.lerp(value, second[key], share) if value.is_floating_point() else value
                for key, value in first.items()
            }
        )
        probs = predict(model, dev, encoded)
        f1, found = evaluate_f1(dev, probs), detection(dev, probs)
        print(f"{name}: dev F1 {f1:.4f}, planted errors found with average precision {found:.4f}", flush=True)
        save_if_best(
            options.out,
            model,
            {"share": share, "dev_f1": f1, "dev_detection": found, "choice": (f1 + found) / 2},
            by="choice",
        )


if __name__ == "__main__":
    main()
