"""Sentences per CPU-second of each graph that this repo has or can write without training, over those of the default graph.

All graphs get the same batches, tokenised beforehand and sorted by length, and take turns on one thread in one process. For
each it is checked whether the other sentences of a batch change a probability, and how far it is from fp32 arithmetic.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from service.errors import ModelError
from service.inference.classifier import Classifier
from service.inference.heads.results import softmax_rows
from service.inference.model.default import INCLUDED_MODELS, find_default_model, find_included_model
from service.inference.model.folder import ModelFolder
from service.inference.providers import CPU_ONLY, PROVIDERS, check_started
from service.inference.session import OPEN_ERRORS, describe_error
from tests.bench.graph_variants import SCRIPTS, write_forms
from tests.bench.pipeline import (
    COPIES,
    SAMPLE,
    THREADS,
    make_raw_run,
    make_sorted_batches,
    read_sample,
    summarize_rates,
)
from tests.support.model_scripts import import_scripts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROUNDS = 5
BATCH_SIZE = 16
CHECKED_SENTENCES = 40
PLANS = 2  # random batch plans of the check
DEFAULT = "default"
OPENVINO = PROVIDERS["openvino"]
OPENVINO_ERRORS: tuple[type[Exception], ...] = (ModelError, *OPEN_ERRORS)
FORMS = {
    "row_scales": "int8 with a scale for each row instead of fixed ranges",
    "batch_scales": "int8 with one scale for the whole batch, as by onnxruntime's dynamic quantisation",
    "no_further_columns": "int8 without the further columns of wide channels",
    "bias_apart": "int8, biases added by nodes of their own",
    "erf_gelu": "int8, GELU by erf instead of by tanh",
}


@dataclass(frozen=True)
class Variant:
    """A graph, and how it is loaded. `exact` names the variant with the same weights and fp32 arithmetic."""

    what: str
    graph: Path
    exact: str
    level: str = "BASIC"
    on_openvino: bool = False


@dataclass(frozen=True)
class Check:
    """`batch_change`: of a probability with batch mates, the largest. `exact_change`: from fp32 arithmetic, in several ways."""

    batch_change: float
    exact_change: dict[str, float]


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch, import_scripts("verify", *SCRIPTS) as scripts:
        folder = ModelFolder.load(find_default_model())
        variants = list_variants(folder, Path(scratch), scripts)
        sessions = open_sessions(variants, scripts["verify"])
        sample = read_sample()
        sentences = sample[: len(sample) // COPIES]
        batches = make_sorted_batches(Classifier(folder, threads=THREADS, self_test=False), sentences, BATCH_SIZE)
        checks = check_variants(variants, sessions, scripts["verify"], load_probes(folder, scripts))
        taken = measure_in_turn({name: make_raw_run(session, batches) for name, session in sessions.items()})
    return make_figures(variants, taken, checks, len(sentences))


def list_variants(folder: ModelFolder, out: Path, scripts: Mapping[str, Any]) -> dict[str, Variant]:
    """The default graph first. Graphs that are not part of the repo are written to `out`."""
    graph, exact = load_graphs(folder.path)
    variants = {
        DEFAULT: Variant("the default model, int8", graph, "exact"),
        "exact": Variant("the default model, fp32 arithmetic", exact, "exact"),
    }
    for name in INCLUDED_MODELS:
        path = find_included_model(name)
        if path is None:
            continue
        its_graph, its_exact = load_graphs(path)
        variants[name] = Variant(f"the included model {name}, int8", its_graph, f"{name}_exact")
        variants[f"{name}_exact"] = Variant(f"the included model {name}, fp32 arithmetic", its_exact, f"{name}_exact")
    for name, form in write_forms(graph, out, scripts).items():
        variants[name] = Variant(FORMS[name], form, "exact")
    # In onnxruntime 1.31 no level changes a node of the int8 graph: until one does, its figure shows the noise.
    variants["level_all"] = Variant("int8, all of onnxruntime's optimisations", graph, "exact", level="ALL")
    variants["exact_level_all"] = Variant(
        "fp32 arithmetic, all of onnxruntime's optimisations", exact, "exact", level="ALL"
    )
    if OPENVINO.ort_name in ort.get_available_providers():
        variants["openvino"] = Variant("int8 on OpenVINO", graph, "exact", on_openvino=True)
        variants["openvino_exact"] = Variant("fp32 arithmetic on OpenVINO", exact, "exact", on_openvino=True)
    else:
        print(f"OpenVINO was not measured, because the package {OPENVINO.package} is missing.", flush=True)
    return variants


def load_graphs(path: Path) -> tuple[Path, Path]:
    """The graphs of a model folder in int8 and in fp32 arithmetic, their digests checked."""
    fast, exact = ModelFolder.load(path).graph, ModelFolder.load(path, precision="exact").graph
    assert fast is not None
    assert exact is not None
    return fast, exact


def open_sessions(variants: Mapping[str, Variant], verify: Any) -> dict[str, ort.InferenceSession]:
    sessions = {}
    for name, variant in variants.items():
        if not variant.on_openvino:
            sessions[name] = verify.open_session(variant.graph, threads=THREADS, level=variant.level)
            continue
        try:
            sessions[name] = open_on_openvino(variant.graph)
        except OPENVINO_ERRORS as error:  # the figures of the others are worth having all the same
            print(f"{name} was not measured, because it does not start: {describe_error(error)}", flush=True)
    return sessions


def open_on_openvino(graph: Path) -> ort.InferenceSession:
    """OpenVINO takes the nodes it knows. The others stay with onnxruntime, on one thread as well."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    provider = (OPENVINO.ort_name, {"device_type": "CPU", "num_of_threads": str(THREADS)})
    session = ort.InferenceSession(str(graph), options, providers=[provider, *CPU_ONLY])
    check_started([OPENVINO.ort_name], session.get_providers())
    return session


def load_probes(folder: ModelFolder, scripts: Mapping[str, Any]) -> list[Any]:
    """Sentences of the sample, and random ones at the lengths where kernels change their ways."""
    verify, places = scripts["verify"], scripts["weights_file"].read_places(folder.graph)
    sentences = verify.load_encoded_sentences(folder.tokenizer_file, SAMPLE, CHECKED_SENTENCES)
    return [*sentences, *verify.make_edge_cases(places["word.values"].dims[0], places["types"].dims[0])]


def check_variants(
    variants: Mapping[str, Variant],
    sessions: Mapping[str, ort.InferenceSession],
    verify: Any,
    probes: Sequence[Any],
) -> dict[str, Check]:
    wanted = {name: verify.run_alone(sessions[name], probes) for name in {each.exact for each in variants.values()}}
    return {
        name: Check(
            measure_batch_change(session, verify, probes),
            verify.measure_change(session, wanted[variants[name].exact], probes),
        )
        for name, session in sessions.items()
    }


def measure_batch_change(session: ort.InferenceSession, verify: Any, probes: Sequence[Any]) -> float:
    """The largest change of a probability between sentences alone and in random batches. 0: the same to the bit."""
    alone = [softmax_rows(logits) for logits in verify.run_alone(session, probes)]
    rng = random.Random(0)
    plans = [verify.make_batch_plan([len(probs) for probs in alone], rng) for _ in range(PLANS)]
    worst = 0.0
    for chosen, width in (batch for plan in plans for batch in plan):
        (together,) = session.run(["logits"], verify.pad_batch([probes[index] for index in chosen], width))
        for logits, probs in zip(together, (alone[index] for index in chosen), strict=True):
            change = np.abs(softmax_rows(logits[: len(probs)]) - probs).max()
            worst = float(np.maximum(worst, change))  # unlike max(), keeps a NaN
    return worst


def measure_in_turn(works: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """CPU seconds of each round. Each second round goes backwards, so that a machine that gets slower favours none."""
    for warm_up in works.values():
        warm_up()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(ROUNDS):
        for name in reversed(taken) if turn % 2 else taken:
            started = time.process_time()  # of all threads: a graph that starts further ones gains nothing
            works[name]()
            taken[name].append(time.process_time() - started)
    return taken


def make_figures(
    variants: Mapping[str, Variant],
    taken: Mapping[str, Sequence[float]],
    checks: Mapping[str, Check],
    n_sentences: int,
) -> list[dict[str, Any]]:
    """A figure for each graph but the default one."""
    figures = []
    for name, seconds in taken.items():
        if name == DEFAULT:
            continue
        ratios = [default / its for default, its in zip(taken[DEFAULT], seconds, strict=True)]
        sides = (DEFAULT, name)
        figures.append(
            {
                "name": f"graph_{name}_vs_default",
                "ratio": statistics.median(ratios),
                "detail": {
                    "what": f"{variants[name].what}; {describe_batch_change(checks[name].batch_change)}",
                    "threads": THREADS,
                    "rounds": len(ratios),
                    "ratios": ratios,
                    "sentences": n_sentences,
                    "batch_size": BATCH_SIZE,
                    "sentences_per_cpu_s": {side: summarize_rates(taken[side], n_sentences) for side in sides},
                    "is_invariant_to_batch_mates": {side: checks[side].batch_change == 0 for side in sides},
                    "largest_change_with_batch_mates": {side: checks[side].batch_change for side in sides},
                    "change_from_fp32_arithmetic": {side: checks[side].exact_change for side in sides},
                },
            }
        )
    return figures


def describe_batch_change(change: float) -> str:
    if change == 0:
        return "batch mates change nothing"
    return f"batch mates change probabilities by up to {change:.2g}"
