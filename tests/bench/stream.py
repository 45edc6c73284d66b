"""The stream end to end against the graph alone: broker and producer on one core, a one-thread worker on the other.

Both sides of a ratio run in one process on the same core, in turn. The raw side is the graph alone: everything
tokenised beforehand and sorted by length over the whole corpus.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import numpy as np

from service.log.kafka.admin import create_topics
from service.log.kafka.log import KafkaLog
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.bench.pipeline import read_sample
from tests.kafka.broker import Cluster
from tests.support.tiny_models import LABELS, make_model

ROUNDS = 3
BROKER_CORE, WORKER_CORE = {0}, {1}
MARKS = (10_000, 200_000)
COPIES = 4  # of the sample: enough that starting and ending count for little


def make_messages() -> list[bytes]:
    return [
        json.dumps({"tokens": s.tokens, "labels": s.labels, "id": str(number)}).encode()
        for number, s in enumerate(read_sample() * COPIES)
    ]


def launch(job: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.stream_side", json.dumps(job)], stdout=subprocess.PIPE, text=True
    )


def read_result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError("a benchmark process failed: its message stands above")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def fill_kafka(servers: str, prefix: str, values: list[bytes], partitions: int) -> None:
    settings = KafkaSettings(bootstrap_servers=servers)
    topics = Topics(prefix)
    create_topics(settings, topics, partitions=partitions, replication=1, min_isr=1)
    append_messages(KafkaLog(settings), topics, values, partitions)


def append_messages(log: KafkaLog | SqliteLog, topics: Topics, values: list[bytes], partitions: int) -> None:
    log.append([Output(topics.sentences, None, v, partition=i % partitions) for i, v in enumerate(values)])
    log.close()


def compare_to_raw(name: str, what: str, rounds: list[dict[str, float]]) -> dict[str, Any]:
    ratios = [one["raw_seconds"] / one["seconds"] for one in rounds]
    return {
        "name": name,
        "ratio": statistics.median(ratios),
        "detail": {
            "what": what,
            "threads": 1,
            "rounds": len(rounds),
            "ratios": ratios,
            "records": rounds[0]["records"],
            "sentences_per_s": [one["records"] / one["seconds"] for one in rounds],
            "raw_sentences_per_s": [one["records"] / one["raw_seconds"] for one in rounds],
            "cpu_seconds_per_sentence": [one["cpu_seconds"] / one["records"] for one in rounds],
        },
    }


def measure_kafka(servers: str, values: list[bytes], cores: list[int]) -> list[dict[str, Any]]:
    found = {}
    for kind in ("kafka", "untransacted"):
        prefixes = [f"{kind}-{number}." for number in range(ROUNDS)]
        for prefix in prefixes:
            fill_kafka(servers, prefix, values, 2)
        job = {"what": "measure", "kind": kind, "servers": servers, "prefixes": prefixes}
        found[kind] = read_result(launch({**job, "records": len(values), "cores": list(WORKER_CORE)}))["rounds"]
    # Each worker is held against the raw graph of its own process, so that a change of the machine's mood cancels out.
    speeds = {kind: [one["raw_seconds"] / one["seconds"] for one in rounds] for kind, rounds in found.items()}
    return [
        compare_to_raw(
            "kafka_vs_raw_ort",
            "Kafka to review topic, one thread on its own core, over the graph alone",
            found["kafka"],
        ),
        {
            "name": "transactions_vs_none",
            "ratio": statistics.median(speeds["kafka"]) / statistics.median(speeds["untransacted"]),
            "detail": {
                "what": "throughput with transactions over the same worker without",
                "threads": 1,
                "ratios": [with_ / without for with_, without in zip(*speeds.values(), strict=True)],
                "speeds": speeds,
            },
        },
        measure_two_workers(servers, values, cores),
    ]


def measure_two_workers(servers: str, values: list[bytes], cores: list[int]) -> dict[str, Any]:
    """Wall time from the first message to the last commit, the workers having their partitions already."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for number in range(ROUNDS):
        for workers, taken in seconds.items():
            prefix = f"share-{workers}-{number}."
            settings, topics = KafkaSettings(bootstrap_servers=servers), Topics(prefix)
            create_topics(settings, topics, partitions=2, replication=1, min_isr=1)
            job: dict[str, Any] = {"what": "share", "kind": "kafka", "servers": servers, "prefixes": [prefix]}
            job |= {"records": len(values) // workers, "partitions": 2 // workers}
            running = [launch({**job, "cores": [cores[i % len(cores)]]}) for i in range(workers)]
            for process in running:
                assert read_line(process.stdout) == "ready\n"
            begun = time.perf_counter()
            append_messages(KafkaLog(settings), topics, values, 2)
            taken.append(max(read_result(process)["ended"] for process in running) - begun)
    return {
        "name": "workers_2_vs_1",
        "ratio": statistics.median(seconds[1]) / statistics.median(seconds[2]),
        "detail": {
            "what": "throughput of two one-thread workers over one; the broker shares their cores",
            "threads": 1,
            "ratios": [one / two for one, two in zip(seconds[1], seconds[2], strict=True)],
            "s": seconds,
        },
    }


def read_line(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline()


def measure_sqlite(folder: Path, values: list[bytes]) -> dict[str, Any]:
    prefixes = [f"round-{number}." for number in range(ROUNDS)]
    for prefix in prefixes:
        append_messages(SqliteLog(folder / "log.sqlite", Topics(prefix)), Topics(prefix), values, 1)
    job = {"what": "measure", "kind": "sqlite", "path": str(folder / "log.sqlite"), "prefixes": prefixes}
    rounds = read_result(launch({**job, "records": len(values), "cores": list(WORKER_CORE)}))["rounds"]
    return compare_to_raw("sqlite_vs_raw_ort", "embedded log, one thread on its own core, over the graph alone", rounds)


def measure_memory(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    words = ["the", "fox", "dog", "Oslo", "runs"]
    values = [
        json.dumps({"tokens": rng.choice(words, 6).tolist(), "labels": rng.choice(LABELS, 6).tolist()}).encode()
        for _ in range(1_000)
    ]
    topics = Topics("memory.")
    for _ in range(MARKS[-1] // len(values)):
        append_messages(SqliteLog(folder / "memory.sqlite", topics), topics, values, 1)
    job: dict[str, Any] = {
        "what": "memory",
        "kind": "sqlite",
        "path": str(folder / "memory.sqlite"),
        "prefixes": [topics.prefix],
    }
    job |= {"model": str(make_model(folder / "tiny", "wordpiece")), "records": MARKS[-1], "marks": MARKS}
    seen = read_result(launch({**job, "cores": sorted(os.sched_getaffinity(0))}))["megabytes"]
    return {
        "name": "memory_200k_vs_10k",
        "ratio": seen[str(MARKS[1])] / seen[str(MARKS[0])],
        "detail": {"what": "resident memory after 200,000 sentences over that after 10,000", "megabytes": seen},
    }


def run() -> list[dict[str, Any]]:
    values = make_messages()
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) < 2:
        raise SystemExit("the stream benchmarks need two cores: one for the broker, one for the worker")
    with tempfile.TemporaryDirectory() as scratch:
        os.sched_setaffinity(0, BROKER_CORE)  # what is started from here keeps to this core unless it is told otherwise
        try:
            with Cluster(Path(scratch)) as cluster:
                results = measure_kafka(cluster.bootstrap_servers, values, sorted(everywhere))
        finally:
            os.sched_setaffinity(0, everywhere)
        results.append(measure_sqlite(Path(scratch), values))
        results.append(measure_memory(Path(scratch)))
    return results
