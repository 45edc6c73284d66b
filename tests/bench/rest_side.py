"""The graph alone on the core it is given, measured each time a line comes in: the other side of the REST figures.

python -m tests.bench.rest_side 1    →    "ready", then a line of JSON for each line
"""

from __future__ import annotations

import json
import os
import sys
import time

from service.inference.classifier import Classifier
from service.inference.model.default import default_model
from service.inference.model.folder import ModelFolder
from tests.bench.pipeline import raw_run, sample_sentences, session_of, sorted_batches, timed

BATCH_SIZES = (8, 16)


def main(core: int) -> None:
    os.sched_setaffinity(0, {core})
    folder = ModelFolder.load(default_model())
    classifier = Classifier(folder, threads=1, self_test=False)
    sentences = sample_sentences()
    session = session_of(folder, 1)
    many = {size: raw_run(session, sorted_batches(classifier, sentences, size)) for size in BATCH_SIZES}
    # One at a time, in the order in which the client sends them.
    single = [raw_run(session, sorted_batches(classifier, [sentence], 1)) for sentence in sentences]
    for warm_up in (*many.values(), *single):
        warm_up()
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds = {size: timed(work) for size, work in many.items()}
        best = min(seconds, key=lambda size: seconds[size])
        used = time.process_time()
        seconds[best] = min(seconds[best], timed(many[best]))
        used = time.process_time() - used
        found = {
            "sentences_per_s": len(sentences) / seconds[best],
            "batch": best,
            "cpu_ms": 1e3 * used / len(sentences),
            "one": [timed(one) for one in single],
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
