"""REST against the graph alone: the model on one thread, clients on one of two cores.

The service is the real command on a loopback port. The graph alone runs on the core without clients, in turn with the
services:

    ""            one process that may use both cores, as where nobody confines it
    one_core_     one process on the core without clients: reading, judging and answering take time from the model
    2_processes_  two processes on both cores; each runs the model, on one thread

Two more services have a model that answers at once, with one process and with two: what they do is all but the graph.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.instant_model import build_instant_model
from tests.bench.rest_load import build_requests, run_load, summarize_latencies
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROUNDS = 3
CLIENTS, MANY_CLIENTS = 32, 128
CLIENT_CORE, MODEL_CORE = 0, 1
BOTH_CORES = frozenset({CLIENT_CORE, MODEL_CORE})
REQUESTS = 1_888  # of many clients: the sample twice
INSTANT_REQUESTS = 9_440
ONE_CLIENT_REQUESTS = 300
WAIT_TIMEOUT_S = 60.0


class Place(NamedTuple):
    """The cores and the processes of a service."""

    cores: frozenset[int]
    processes: int = 1


PLACES = {
    "": Place(BOTH_CORES),
    "one_core_": Place(frozenset({MODEL_CORE})),
    "2_processes_": Place(BOTH_CORES, processes=2),
}  # by what the names of the figures say
INSTANT_PLACES = {"": PLACES[""], "2_processes_": PLACES["2_processes_"]}
WITH_MANY_CLIENTS = ("", "2_processes_")


@contextmanager
def run_service(
    folder: Path, cores: frozenset[int] | set[int], settings: Mapping[str, str] | None = None
) -> Iterator[tuple[int, int]]:
    """`labelwatch api` on its cores; gives its port and process id. `settings`: further variables."""
    port = find_free_port()
    (folder / str(port)).mkdir()
    variables = {
        "LABELWATCH_LOG_PATH": str(folder / str(port) / "log.sqlite"),
        "LABELWATCH_MODEL_THREADS": "1",
        "LABELWATCH_API_PORT": str(port),
        "LABELWATCH_LOGS_LEVEL": "warning",
        **(settings or {}),
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LABELWATCH_")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from service.cli.main import main; main()", "api"],
        env={**clean, **variables},
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - no threads here
    )
    try:
        until = time.monotonic() + WAIT_TIMEOUT_S
        while not _is_ready(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the service did not get ready: its message stands above")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(WAIT_TIMEOUT_S)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def start_raw_graph() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.rest_side", str(MODEL_CORE), str(ONE_CLIENT_REQUESTS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(WAIT_TIMEOUT_S)


def measure_raw_graph(raw: subprocess.Popen[str]) -> dict[str, Any]:
    assert raw.stdin is not None
    assert raw.stdout is not None
    raw.stdin.write("\n")
    raw.stdin.flush()
    found: dict[str, Any] = json.loads(raw.stdout.readline())
    return found


def list_processes(process_id: int) -> list[int]:
    """A process and its children."""
    tasks = Path(f"/proc/{process_id}/task")
    return [process_id, *(int(child) for path in tasks.glob("*/children") for child in path.read_text().split())]


def read_service_cpu_seconds(process_id: int) -> float:
    return sum(map(read_cpu_seconds, list_processes(process_id)))


def read_cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_round(place: str, port: int, process_id: int, n_requests: int = REQUESTS) -> dict[str, Any]:
    """What one service does. Beside it stands what the graph alone does before and after."""
    requests = build_requests(port)
    enough = (requests * -(-n_requests // len(requests)))[:n_requests]
    used = read_service_cpu_seconds(process_id)
    many = run_load(port, enough, CLIENTS)
    used = read_service_cpu_seconds(process_id) - used
    found = {
        "requests": len(enough),
        "requests_per_s": len(enough) / many["seconds"],
        "ms_32": summarize_latencies(many["latencies"]),
        "client_share": many["client_share"],
        "client_cpu_ms": many["client_cpu_ms"],
        "service_cpu_ms": 1e3 * used / len(enough),  # of one request; beside it one sentence in the graph alone
    }
    if place in WITH_MANY_CLIENTS:
        crowd = run_load(port, enough, MANY_CLIENTS)
        found["requests_per_s_128"] = len(enough) / crowd["seconds"]
        found["ms_128"] = summarize_latencies(crowd["latencies"])
        found["ratio_128"] = many["seconds"] / crowd["seconds"]
    found["one"] = run_load(port, requests[:ONE_CLIENT_REQUESTS], 1)["latencies"]
    return found


def compare_with_raw(found: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    fastest = max(before["sentences_per_s"], after["sentences_per_s"])
    alone = [statistics.mean(pair) for pair in zip(before["one"], after["one"], strict=True)]
    one = found.pop("one")
    return {
        **found,
        "ratio_32": found["requests_per_s"] / fastest,
        "ratio_1": statistics.median(took / raw for took, raw in zip(one, alone, strict=True)),
        "raw_sentences_per_s": fastest,
        "ms_1": summarize_latencies(one),
        "raw_ms_1": summarize_latencies(alone),
        "raw_cpu_ms": min(before["cpu_ms"], after["cpu_ms"]),
    }


def format_round(place: str, each: dict[str, Any]) -> str:
    many = ""
    if "ms_128" in each:
        many = f"; {MANY_CLIENTS} clients: {each['requests_per_s_128']:.0f}/s, p99 {each['ms_128']['p99']:.1f} ms"
    return (
        f"{place or 'both_cores_'}{CLIENTS} clients: {each['requests_per_s']:.0f}/s of "
        f"{each['raw_sentences_per_s']:.0f} raw, p50 {each['ms_32']['p50']:.1f} p99 {each['ms_32']['p99']:.1f} ms, "
        f"CPU {each['service_cpu_ms']:.2f} of {each['raw_cpu_ms']:.2f} ms; one client: p50 {each['ms_1']['p50']:.2f} "
        f"p99 {each['ms_1']['p99']:.2f} ms, raw p50 {each['raw_ms_1']['p50']:.2f} ms{many}"
    )


def run() -> list[dict[str, Any]]:
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) < 2:
        raise SystemExit("the REST benchmarks need two cores: one for the model, one for the clients")
    os.sched_setaffinity(0, {CLIENT_CORE})
    try:
        with tempfile.TemporaryDirectory() as folder:
            rounds = measure_against_raw(Path(folder))
            instant = measure_instant_model(Path(folder))
    finally:
        os.sched_setaffinity(0, everywhere)
    return [
        *(figure for place, found in rounds.items() for figure in make_figures(place, found)),
        make_instant_figure(instant),
    ]


@contextmanager
def run_places(
    folder: Path, places: Mapping[str, Place], settings: Mapping[str, str] | None = None
) -> Iterator[dict[str, tuple[int, int]]]:
    """Port and process of each service, warm."""
    with ExitStack() as leaving:
        services = {
            name: leaving.enter_context(
                run_service(folder, place.cores, {**(settings or {}), "LABELWATCH_API_PROCESSES": str(place.processes)})
            )
            for name, place in places.items()
        }
        for port, _ in services.values():
            run_load(port, build_requests(port), CLIENTS)
        yield services


def measure_against_raw(folder: Path) -> dict[str, list[dict[str, Any]]]:
    rounds: dict[str, list[dict[str, Any]]] = {place: [] for place in PLACES}
    with start_raw_graph() as raw, run_places(folder, PLACES) as services:
        before = measure_raw_graph(raw)
        for _ in range(ROUNDS):
            for place, (port, process_id) in services.items():
                found = run_round(place, port, process_id)
                after = measure_raw_graph(raw)
                rounds[place].append(compare_with_raw(found, before, after))
                before = after
                print(format_round(place, rounds[place][-1]), file=sys.stderr, flush=True)
    return rounds


def measure_instant_model(folder: Path) -> dict[str, list[dict[str, Any]]]:
    build_instant_model(folder / "instant")
    rounds: dict[str, list[dict[str, Any]]] = {place: [] for place in INSTANT_PLACES}
    settings = {"LABELWATCH_MODEL_FOLDER": str(folder / "instant")}
    with run_places(folder, INSTANT_PLACES, settings) as services:
        for _ in range(ROUNDS):
            for place, (port, process_id) in services.items():
                each = run_round("instant", port, process_id, INSTANT_REQUESTS)
                rounds[place].append(each)
                print(
                    f"instant model, {place or '1_process_'}{CLIENTS} clients: {each['requests_per_s']:.0f}/s, "
                    f"p99 {each['ms_32']['p99']:.1f} ms, CPU {each['service_cpu_ms']:.2f} ms, "
                    f"of the client {each['client_cpu_ms']:.2f} ms",
                    file=sys.stderr,
                    flush=True,
                )
    return rounds


def list_details(rounds: Sequence[Mapping[str, Any]], *names: str) -> dict[str, Any]:
    return {name: [each[name] for each in rounds] for name in names}


def make_figures(place: str, rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    cores, processes = sorted(PLACES[place].cores), PLACES[place].processes
    shared = {
        "rounds": len(rounds),
        "clients_core": CLIENT_CORE,
        "service_cores": cores,
        "processes": processes,
        "model_threads": processes,
    }
    where = "" if len(cores) > 1 else ", the whole service on one core"
    threads = "one model thread" if processes == 1 else f"{processes} processes with a model thread each"
    figures = [
        {
            "name": f"rest_32_clients_{place}vs_raw_ort",
            "ratio": statistics.median(each["ratio_32"] for each in rounds),
            "detail": {
                "what": f"single sentences of 32 clients, {threads}, over the graph alone on one core{where}",
                **shared,
                **list_details(
                    rounds,
                    *("ratio_32", "requests", "requests_per_s", "raw_sentences_per_s", "ms_32", "client_share"),
                    *("service_cpu_ms", "client_cpu_ms", "raw_cpu_ms"),
                ),
            },
        },
        {
            "name": f"rest_1_client_{place}p50_vs_raw_ort",
            "ratio": statistics.median(each["ratio_1"] for each in rounds),
            "detail": {
                "what": f"time of a sentence over REST to that in the graph alone (lower is better), {threads}, median{where}",
                **shared,
                **list_details(rounds, "ratio_1", "ms_1", "raw_ms_1"),
            },
        },
    ]
    if place in WITH_MANY_CLIENTS:
        figures.append(
            {
                "name": f"rest_128_clients_{place}vs_32",
                "ratio": statistics.median(each["ratio_128"] for each in rounds),
                "detail": {
                    "what": f"sentences per second of 128 clients over those of 32, {threads}",
                    **shared,
                    **list_details(rounds, "ratio_128", "requests_per_s_128", "requests_per_s", "ms_128", "ms_32"),
                },
            }
        )
    return figures


def make_instant_figure(rounds: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    one, two = rounds[""], rounds["2_processes_"]
    ratios = [each["requests_per_s"] / single["requests_per_s"] for each, single in zip(two, one, strict=True)]
    names = ("requests_per_s", "ms_32", "client_share", "client_cpu_ms", "service_cpu_ms")
    return {
        "name": "rest_instant_model_2_processes_vs_1",
        "ratio": statistics.median(ratios),
        "detail": {
            "what": "sentences per second of 32 clients with a model that answers at once, two processes over one",
            "rounds": len(two),
            "service_cores": sorted(BOTH_CORES),
            "clients_core": CLIENT_CORE,
            "2_processes": list_details(two, *names),
            "1_process": list_details(one, *names),
        },
    }
