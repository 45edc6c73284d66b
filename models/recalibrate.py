"""Writes the int8 graph of a finished folder again, over the weights that it has, and checks it.

    python models/recalibrate.py --folder models/default --data DIR

For a change of the graph alone: nothing is trained or rounded, the weights and the exact graph stay as they are. Training
sentences give the ranges of the activations. Afterwards `finish.py` writes the manifest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from activations import measure_ranges
from graphs import read_sizes
from manifest import FILES
from quantize import write_graph
from shipped import read_shipped_tensors
from verify import (
    load_encoded_sentences,
    make_edge_cases,
    measure_change,
    measure_largest_drift,
    measure_speeds,
    open_session,
    run_alone,
)
from weights_file import read_places


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="a model folder with both graphs")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--calibration", type=int, default=256, help="training sentences to look at")
    parser.add_argument("--sentences", type=int, default=60, help="dev sentences for the checks")
    parser.add_argument("--plans", type=int, default=3, help="random batch plans for the checks")
    options = parser.parse_args()
    folder: Path = options.folder
    exact, fast, tokenizer = (folder / FILES[role] for role in ("exact", "fast", "tokenizer"))
    tensors = read_shipped_tensors(exact)
    sizes = read_sizes(exact)
    training = load_encoded_sentences(tokenizer, options.data / "train.tsv", options.calibration)
    write_graph(sizes, "fast", read_places(exact), folder, ranges=measure_ranges(sizes, tensors, training))

    dev = load_encoded_sentences(tokenizer, options.data / "dev.tsv", options.sentences)
    sessions = {"exact": open_session(exact), "fast": open_session(fast)}
    mixed = [*dev[: options.sentences // 2], *make_edge_cases(len(tensors["word"]), len(tensors["types"]))]
    drift = measure_largest_drift(fast, mixed, plans=options.plans)
    figures = {
        "change_against_exact": measure_change(sessions["fast"], run_alone(sessions["exact"], dev), dev),
        "speed": measure_speeds(sessions, dev),
        "drift": drift,
    }
    print(json.dumps(figures, indent=2))
    if drift != 0:
        raise SystemExit(f"batch mates change the answers: {drift}")


if __name__ == "__main__":
    main()
