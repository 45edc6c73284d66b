"""labelwatch's REST API beside services that a team would write without it, asked by the same clients in turn.

All have the weights of the default model and one model thread, and may use both cores. MLServer takes part if
LABELWATCH_BENCH_MLSERVER names its command.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.pipeline import read_sample, summarize_rates
from tests.bench.rest import CLIENT_CORE
from tests.bench.rest_load import run_load, summarize_latencies
from tests.bench.services.port import MLSERVER_VARIABLE, THREADS, run_labelwatch, run_mlserver, run_plain_service

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.bench.services.port import RunningService

ROUNDS = 3
SENTENCES = 472  # once the sample
CLIENTS = (32, 1)


def run() -> list[dict[str, Any]]:
    cores = os.sched_getaffinity(0)
    starts = [run_labelwatch, run_plain_service]
    if os.environ.get(MLSERVER_VARIABLE):
        starts.append(run_mlserver)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        services = [stack.enter_context(start(folder, cores)) for start in starts]
        os.sched_setaffinity(0, {CLIENT_CORE})
        try:
            rounds = measure_in_turn(services)
        finally:
            os.sched_setaffinity(0, cores)
    return make_figures(rounds)


Rounds = dict[int, dict[str, list[dict[str, Any]]]]


def measure_in_turn(services: Sequence[RunningService]) -> Rounds:
    """By the number of clients, and by the name of the service."""
    sentences = read_sample()[:SENTENCES]
    requests = {each.name: [each.build_request(sentence) for sentence in sentences] for each in services}
    for each in services:
        run_load(each.port, requests[each.name][:64], max(CLIENTS))  # warm
    rounds: Rounds = {clients: {each.name: [] for each in services} for clients in CLIENTS}
    for _ in range(ROUNDS):
        for clients, found in rounds.items():
            for each in services:
                load = run_load(each.port, requests[each.name], clients)
                found[each.name].append(load)
                latencies = summarize_latencies(load["latencies"])
                print(
                    f"{each.name}, {clients} clients: {len(sentences) / load['seconds']:.0f}/s, "
                    f"p50 {latencies['p50']:.1f} p99 {latencies['p99']:.1f} ms",
                    file=sys.stderr,
                    flush=True,
                )
    return rounds


def make_figures(rounds: Mapping[int, Mapping[str, Sequence[Mapping[str, Any]]]]) -> list[dict[str, Any]]:
    """A figure for each other service and number of clients: its time over that of labelwatch."""
    figures = []
    for clients, by_service in rounds.items():
        (_, ours), *others = by_service.items()
        for name, theirs in others:
            pairs = [(mine["seconds"], its["seconds"]) for mine, its in zip(ours, theirs, strict=True)]
            sides = {"labelwatch": ours, name: theirs}
            figures.append(
                {
                    "name": f"rest_{clients}_client{'s' if clients > 1 else ''}_vs_{name.split()[0].lower()}",
                    "ratio": statistics.median(its / mine for mine, its in pairs),
                    "detail": {
                        "what": f"requests/s of labelwatch over {name}, {clients} client{'s' if clients > 1 else ''}, "
                        "single sentences",
                        "threads": THREADS,
                        "rounds": len(pairs),
                        "ratios": [its / mine for mine, its in pairs],
                        "requests_per_s": {
                            f"{side}, {clients} client{'s' if clients > 1 else ''}": summarize_rates(
                                [each["seconds"] for each in found], len(found[0]["latencies"])
                            )
                            for side, found in sides.items()
                        },
                        "ms": {
                            side: [summarize_latencies(each["latencies"]) for each in found]
                            for side, found in sides.items()
                        },
                    },
                }
            )
    return figures
