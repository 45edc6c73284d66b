"""A simulation of 1,000 workers and 1,000 partitions, checked against real runs with one to four workers.

One worker on a real Kafka gives the costs of batches and commits, a second one that joins it those of a rebalance. The
simulation then predicts the runs with two, three and four workers, and those in which a worker joins, stops or crashes. The
workers' model sleeps, so that four of them run side by side on two cores.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.scale.calibrate import calibrate_batches, calibrate_rebalance, compute_error, simulate_run
from tests.bench.scale.costs import Costs
from tests.bench.scale.outlook import simulate_all
from tests.bench.scale.real import Plan, Setting, run_plans
from tests.bench.stream import make_messages
from tests.kafka.broker import Cluster
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.scale.real import RealRun

PARTITIONS = 12
SLEEP_S = 0.008
BATCH_RECORDS = 64
SESSION_TIMEOUT_MS = 6_000
PER_WORKER = 960  # sentences: about eight seconds
DEFAULT_MODEL_SENTENCES = 3_072
SEEDS = range(5)
REPORT_PATH = Path(".bench/scale.json")
DEFAULT_MODEL = Plan("default-model", 1)
CALIBRATION = (Plan("one", 1), Plan("one-and-one-joins", 1, "start"))
CHECKS = (
    Plan("two", 2),
    Plan("three", 3),
    Plan("four", 4),
    Plan("three-and-one-joins", 3, "start"),
    Plan("three-and-one-stops", 3, "stop"),
    Plan("three-and-one-crashes", 3, "crash"),
)


def run() -> list[dict[str, Any]]:
    measured = measure_real_runs()
    checks = [check_run(measured.sleeping, each) for each in measured.runs]
    report: dict[str, Any] = {
        "costs": measured.default_model.to_json(),
        "bytes": measured.sizes,
        "sleeping_costs": measured.sleeping.to_json(),
        "checks": checks,
    }
    write_report(report)
    write_report({**report, "outlook": simulate_all(measured.default_model)})
    return [
        make_figure("scale_throughput_simulated_vs_real", "two, three and four workers", checks[:3]),
        make_figure(
            "scale_catch_up_simulated_vs_real", "three workers, one more joins, one stops, one crashes", checks[3:]
        ),
    ]


def write_report(report: dict[str, Any]) -> None:
    REPORT_PATH.parent.mkdir(exist_ok=True)
    REPORT_PATH.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


class Measured(NamedTuple):
    """The costs with the default model and with the model that sleeps, and the runs to predict with the latter."""

    default_model: Costs
    sizes: dict[str, float]
    sleeping: Costs
    runs: list[RealRun]


def measure_real_runs() -> Measured:
    values = make_messages()[:DEFAULT_MODEL_SENTENCES]
    short = make_short_messages(PER_WORKER * max(plan.workers for plan in CHECKS))
    costs = Costs.read()
    with tempfile.TemporaryDirectory() as scratch, Cluster(Path(scratch)) as cluster:
        # One partition for each worker, and batches as large as they are by default.
        full = Setting(cluster.bootstrap_servers, SESSION_TIMEOUT_MS, partitions=1, batch_records=costs.max_batch)
        (default,) = run_plans(full, [DEFAULT_MODEL], values, DEFAULT_MODEL_SENTENCES)
        model = make_model(Path(scratch) / "tiny", "wordpiece")
        setting = replace(full, partitions=PARTITIONS, batch_records=BATCH_RECORDS, sleep_s=SLEEP_S, model=model)
        one, joined = run_plans(setting, CALIBRATION, short, PER_WORKER)
        rebalance = calibrate_rebalance(costs, joined)
        sleeping = adapt_costs(calibrate_batches(rebalance, one))
        runs = list(run_plans(setting, CHECKS, short, PER_WORKER))
    return Measured(calibrate_batches(rebalance, default), measure_sizes(values, default), sleeping, runs)


def make_short_messages(count: int) -> list[bytes]:
    """Sentences that take little of the processor, which the workers share."""
    return [
        json.dumps({"id": str(number), "tokens": ["the", "fox"], "labels": ["O", "O"]}).encode()
        for number in range(count)
    ]


def measure_sizes(values: Sequence[bytes], run: RealRun) -> dict[str, float]:
    """Bytes of a message, of what a sentence adds to the review topic on average, and of the state in a commit."""
    return {
        "message": statistics.mean(map(len, values)),
        "review_per_sentence": sum(batch["output_bytes"] for batch in run.batches) / run.sentences,
        "state_per_commit": statistics.mean(batch["state_bytes"] for batch in run.batches),
        "state_records_per_commit": statistics.mean(batch["state_records"] for batch in run.batches),
    }


def adapt_costs(costs: Costs) -> Costs:
    """The settings of the real runs in place of the defaults."""
    return replace(costs, max_batch=BATCH_RECORDS, session_timeout_s=SESSION_TIMEOUT_MS / 1000)


def check_run(costs: Costs, real: RealRun) -> dict[str, Any]:
    simulated = [simulate_run(costs, real, seed=seed) for seed in SEEDS]
    predicted = statistics.median(each.last_commit_at for each in simulated)
    error = compute_error(real, simulated)
    print(f"{real.plan.name}: {real.seconds:.2f} s real, {predicted:.2f} s simulated, {error:+.1%}", file=sys.stderr)
    return {
        "name": real.plan.name,
        "sentences": real.sentences,
        "real_s": real.seconds,
        "simulated_s": predicted,
        "error": error,
        "real_sentences_per_batch": real.sentences / len(real.batches),
        "real_partitions_per_batch": statistics.mean(batch["partitions"] for batch in real.batches),
    }


def make_figure(name: str, text: str, checks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ratios = [each["simulated_s"] / each["real_s"] for each in checks]
    return {
        "name": name,
        "ratio": statistics.median(ratios),
        "detail": {
            "what": f"simulated over real seconds until everything is committed, {PARTITIONS} partitions: {text}",
            "threads": 1,
            "ratios": ratios,
            "checks": list(checks),
        },
    }
