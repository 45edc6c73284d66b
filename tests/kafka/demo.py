"""`make run-kafka`: runs a broker, a worker and a producer, and prints the flagged sentences. Ctrl-C ends all of them."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kafka.broker import Cluster, KafkaUnavailableError

COMMAND = Path(sys.executable).with_name("labelwatch")
SAMPLE = Path("models/sample/sample.tsv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="stop when the sample has been assessed")
    once = parser.parse_args().once
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print("starting a Kafka broker …", flush=True)
        try:
            cluster = stack.enter_context(Cluster(scratch))
        except KafkaUnavailableError as error:
            print(error, file=sys.stderr)
            return 1
        settings = {
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
            "LABELWATCH_TOPICS_PARTITIONS": "2",
            "LABELWATCH_TOPICS_REPLICATION": "1",
            "LABELWATCH_TOPICS_MIN_ISR": "1",
        }
        environment = {**os.environ, **settings}
        print("\n".join(f"export {name}={value}" for name, value in settings.items()), flush=True)

        def labelwatch(*arguments: str) -> None:
            print(f"\n$ labelwatch {' '.join(arguments)}", flush=True)
            subprocess.run([COMMAND, *arguments], env=environment, check=True)

        labelwatch("topics", "create")
        if once:
            labelwatch("send", str(SAMPLE), "--dataset", "sample")
            labelwatch("worker", "--once")
            labelwatch("tail", "review")
            return 0
        print("\n$ labelwatch worker &", flush=True)
        worker = subprocess.Popen([COMMAND, "worker"], env=environment)
        stack.callback(_stop_process, worker)
        labelwatch("send", str(SAMPLE), "--dataset", "sample")
        with contextlib.suppress(KeyboardInterrupt, subprocess.CalledProcessError):
            labelwatch("tail", "review", "--follow")
    return 0


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main())
