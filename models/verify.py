"""What a quantised folder is worth: how far from fp32, whether batch mates change anything, how fast.

    python models/verify.py --fp32 DIR --folder DIR --data DIR

Exits with an error where batch mates change an answer.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from corpus import Sentence, read_rows
from graphs import INPUTS
from manifest import FILES, MAX_LENGTH
from tokenized import TokenizedSentence, encode_all
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 11, 16, 23, 32)
PADDING = (0, 0, 1, 2, 3, 5, 8, 15, 16, 33, 64)
EDGES = (1, 1, 2, 2, 3, 15, 16, 17, 31, 33, 47, 49, 63, 64, 65, 97, 128, 129, 200, 256)
MAX_BATCH_SUBWORDS = 4096  # padded subwords a batch, to keep the check short
ROUNDS = 15


def open_session(path: Path, *, threads: int = 1, level: str = "BASIC") -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def pad_batch(sentences: Sequence[TokenizedSentence], width: int = 0) -> dict[str, np.ndarray]:
    width = max(width, *(len(each.ids) for each in sentences))
    arrays = {name: np.zeros((len(sentences), width), np.int64) for name in INPUTS}
    for row, each in enumerate(sentences):
        for name, values in zip(INPUTS, (each.ids, each.types, [1] * len(each.ids)), strict=True):
            arrays[name][row, : len(each.ids)] = values
    return arrays


def run_alone(session: onnxruntime.InferenceSession, sentences: Sequence[TokenizedSentence]) -> list[np.ndarray]:
    """Each sentence's logits when it is run by itself, without padding."""
    return [session.run(["logits"], pad_batch([each]))[0][0] for each in sentences]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def load_encoded_sentences(
    tokenizer: Path, columns: Path, count: int, *, casing: bool = True
) -> list[TokenizedSentence]:
    """The sentences from the middle of the file on: its first ones are mostly tables of results. Labels do not matter."""
    sentences = [Sentence(tuple(row[0] for row in rows), ()) for rows in read_rows(columns)]
    first = max(0, min(len(sentences) // 2, len(sentences) - count))
    return encode_all(Tokenizer.from_file(str(tokenizer)), sentences[first : first + count], casing=casing)


def make_edge_cases(vocabulary: int, types: int, seed: int = 1) -> list[TokenizedSentence]:
    """Random subwords at the lengths where kernels change their ways: one row, and about multiples of 16."""
    rng = random.Random(seed)
    return [
        TokenizedSentence(
            [rng.randrange(vocabulary) for _ in range(n)], [rng.randrange(types) for _ in range(n)], [-1] * n
        )
        for n in EDGES
    ]


def measure_change(
    session: onnxruntime.InferenceSession, wanted: Sequence[np.ndarray], sentences: Sequence[TokenizedSentence]
) -> dict[str, float]:
    """How far logits and probabilities are from the wanted logits."""
    logits, truth = np.concatenate(run_alone(session, sentences)), np.concatenate(wanted)
    moved = np.abs(softmax(logits) - softmax(truth))
    return {
        "logits_rms": float(np.sqrt(np.mean((logits - truth) ** 2))),
        "probability_mean": float(moved.mean()),
        "probability_max": float(moved.max()),
        "answers_changed": float(np.mean(logits.argmax(1) != truth.argmax(1))),
    }


def make_batch_plan(lengths: Sequence[int], rng: random.Random) -> list[tuple[list[int], int]]:
    """Every sentence once, in batches of random mates, sizes and widths."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    plan = []
    while order:
        chosen = order[: rng.choice(SIZES)]
        while len(chosen) > 1 and len(chosen) * max(lengths[i] for i in chosen) > MAX_BATCH_SUBWORDS:
            chosen.pop()
        order = order[len(chosen) :]
        longest = max(lengths[i] for i in chosen)
        plan.append((chosen, max(longest, min(MAX_LENGTH, longest + rng.choice(PADDING)))))
    return plan


def measure_largest_drift(
    path: Path, sentences: Sequence[TokenizedSentence], *, plans: int, threads: Sequence[int] = (1, 2)
) -> float:
    """The largest change of any logit between sentences alone in one thread, and in random batches and threads."""
    wanted = run_alone(open_session(path), sentences)
    worst = 0.0
    for count in threads:
        session = open_session(path, threads=count)
        rng = random.Random(count)
        for _ in range(plans):
            for chosen, width in make_batch_plan([len(each.ids) for each in sentences], rng):
                (logits,) = session.run(["logits"], pad_batch([sentences[i] for i in chosen], width))
                for row, i in enumerate(chosen):
                    moved = np.abs(logits[row, : len(wanted[i])] - wanted[i]).max()
                    worst = float(np.maximum(worst, moved))  # unlike max(), keeps a NaN
    return worst


def measure_speeds(
    sessions: Mapping[str, onnxruntime.InferenceSession], sentences: Sequence[TokenizedSentence], batch: int = 12
) -> dict[str, dict[str, float]]:
    """Sentences per CPU-second in one thread, sorted batches and one at a time, and how often the first session's.

    The sessions take turns, so that a busy machine slows all of them alike.
    """
    ordered = sorted(sentences, key=lambda each: len(each.ids))
    middle = ordered[(len(ordered) - batch) // 2 :][:batch]
    loads = {"batch": [pad_batch(middle)], "single": [pad_batch([each]) for each in middle[::4]]}
    taken: dict[tuple[str, str], list[float]] = {(name, load): [] for name in sessions for load in loads}
    for _ in range(ROUNDS):
        for name, session in sessions.items():
            for load, inputs in loads.items():
                started = time.thread_time()
                for each in inputs:
                    session.run(["logits"], each)
                taken[name, load].append(time.thread_time() - started)
    counts = {load: sum(len(each["input_ids"]) for each in inputs) for load, inputs in loads.items()}
    rates = {name: {load: counts[load] / median(taken[name, load]) for load in loads} for name in sessions}
    first = rates[next(iter(rates))]
    return {name: rate | {f"{load}_ratio": rate[load] / first[load] for load in loads} for name, rate in rates.items()}


def verify(fp32: Path, folder: Path, data: Path, *, count: int, plans: int) -> dict[str, Any]:
    """All figures of a folder; SystemExit where batch mates change an answer."""
    sentences = load_encoded_sentences(fp32 / "tokenizer.json", data / "dev.tsv", count)
    paths = {"fp32": fp32 / "model.onnx", "fast": folder / FILES["fast"], "exact": folder / FILES["exact"]}
    sessions = {name: open_session(path, level="ALL" if name == "fp32" else "BASIC") for name, path in paths.items()}
    wanted = run_alone(sessions["fp32"], sentences)
    shape = json.loads((fp32 / "config.json").read_text())
    mixed = [*sentences[: count // 2], *make_edge_cases(shape["vocab_size"], shape["type_vocab_size"])]
    figures: dict[str, Any] = {
        "megabytes": sum((folder / file).stat().st_size for role, file in FILES.items() if role != "tokenizer") / 1e6
    }
    quantised = ("fast", "exact")
    figures["change"] = {name: measure_change(sessions[name], wanted, sentences) for name in quantised}
    figures["speed"] = measure_speeds(sessions, sentences)
    figures["drift"] = {name: measure_largest_drift(paths[name], mixed, plans=plans) for name in quantised}
    print(json.dumps(figures, indent=2))
    if any(drift != 0 for drift in figures["drift"].values()):
        raise SystemExit(f"batch mates change the answers: {figures['drift']}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fp32", type=Path, required=True, help="what export.py wrote")
    parser.add_argument("--folder", type=Path, required=True, help="what quantize.py wrote")
    parser.add_argument("--data", type=Path, required=True, help="folder with dev.tsv")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--plans", type=int, default=3)
    options = parser.parse_args()
    verify(options.fp32, options.folder, options.data, count=options.sentences, plans=options.plans)


if __name__ == "__main__":
    main()
