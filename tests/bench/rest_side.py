"""The graph alone on the core it is given, measured each time a line comes in: the other side of the REST figures.

python -m tests.bench.rest_side 1 300    →    "ready", then a line of JSON for each line: 300 sentences one at a time
"""

from __future__ import annotations

import json
import os
import sys
import time

from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from tests.bench.pipeline import (
    COPIES,
    make_raw_run,
    make_sorted_batches,
    measure_seconds,
    open_session,
    read_sample,
)

BATCH_SIZES = (8, 16)


def main(core: int, n_single: int) -> None:
    os.sched_setaffinity(0, {core})
    folder = ModelFolder.load(find_default_model())
    classifier = Classifier(folder, threads=1, self_test=False)
    sample = read_sample()
    sentences = sample[: len(sample) // COPIES]
    session = open_session(folder, 1)
    many = {size: make_raw_run(session, make_sorted_batches(classifier, sentences, size)) for size in BATCH_SIZES}
    # One at a time, in the order in which the client sends them.
    single = [make_raw_run(session, make_sorted_batches(classifier, [sentence], 1)) for sentence in sample[:n_single]]
    for warm_up in (*many.values(), *single):
        warm_up()
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds = {size: measure_seconds(work) for size, work in many.items()}
        best = min(seconds, key=lambda size: seconds[size])
        used = time.process_time()
        seconds[best] = min(seconds[best], measure_seconds(many[best]))
        used = time.process_time() - used
        found = {
            "sentences_per_s": len(sentences) / seconds[best],
            "batch": best,
            "cpu_ms": 1e3 * used / len(sentences),
            "one": [measure_seconds(one) for one in single],
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
