"""Fine-tunes an encoder on the CoNLL-2003 training labels; dev chooses the epoch.

    python models/finetune.py --data DIR --encoder base --weights DIR --out DIR

Interrupted, the same command goes on from the last checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from corpus import LABELS, read_columns
from encoders import load_encoder
from tokenized import encode_all
from tokenizers import Tokenizer
from training import Trainer, TrainingPlan, evaluate_f1, make_hard_targets, predict, save_if_best

PLANS = {"base": (2, 16, 5e-5, 5e-4), "small": (4, 32, 2e-4, 1e-3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--encoder", choices=list(PLANS), required=True)
    parser.add_argument("--weights", type=Path, required=True, help="what encoders.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    epochs, batch, rate, head_rate = PLANS[options.encoder]
    plan = TrainingPlan(options.epochs or epochs, batch, rate, head_rate, options.seed)
    train, dev = read_columns(options.data / "train.tsv"), read_columns(options.data / "dev.tsv")
    tokenizer = Tokenizer.from_file(str(options.weights / "tokenizer.json"))
    casing = options.encoder == "small"
    encoded, dev_encoded = encode_all(tokenizer, train, casing=casing), encode_all(tokenizer, dev, casing=casing)
    model = load_encoder(options.encoder, options.weights, labels=LABELS)
    trainer = Trainer(model, plan, options.out, plan.epochs * -(-len(train) // plan.batch))
    for epoch in trainer.run(encoded, make_hard_targets(train)):
        trainer.swap_average()
        f1 = evaluate_f1(dev, predict(model, dev, dev_encoded))
        print(f"epoch {epoch}: dev F1 {f1:.4f}", flush=True)
        save_if_best(options.out, model, {"epoch": epoch, "dev_f1": f1}, by="dev_f1")
        trainer.swap_average()


if __name__ == "__main__":
    main()
