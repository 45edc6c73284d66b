"""The service and a Prometheus that scrapes it, both real, with a sample stream that flows until the end."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from tests.support.ports import find_free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
SAMPLE = ROOT / "models" / "sample" / "sample.tsv"
HOST = "127.0.0.1"
WAIT_TIMEOUT_S = 90.0
POLL_INTERVAL_S = 0.2
SCRAPE_INTERVAL = "1s"
BATCH_SIZE = 16
ANNOTATORS = ("ann", "ben", "eve", None)


def make_sample_stream() -> list[dict[str, Any]]:
    """Sentences of the sample data, in two datasets and by several annotators."""
    found = []
    for number, block in enumerate(SAMPLE.read_text(encoding="utf-8").strip().split("\n\n")):
        pairs = [line.split("\t") for line in block.splitlines()]
        sentence: dict[str, Any] = {
            "dataset": ("default", "news")[number % 2],
            "tokens": [pair[0] for pair in pairs],
            "labels": [pair[1] for pair in pairs],
        }
        annotator = ANNOTATORS[number // 2 % len(ANNOTATORS)]
        found.append(sentence if annotator is None else {**sentence, "annotator": annotator})
    return found


@dataclass
class MonitoredService:
    service: httpx.Client
    prometheus: httpx.Client
    feed_errors: list[str] = field(default_factory=list)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Series with a number at this moment."""
        answer = self.prometheus.post("/api/v1/query", data={"query": expr})
        body = answer.json()
        assert body["status"] == "success", f"{expr}: {body}"
        data = body["data"]
        series = data["result"] if data["resultType"] == "vector" else [{"metric": {}, "value": data["result"]}]
        return [one for one in series if one["value"][1] != "NaN"]

    def wait_for(self, what: str, reached: Callable[[], object]) -> None:
        until = time.monotonic() + WAIT_TIMEOUT_S
        while not reached():
            assert not self.feed_errors, self.feed_errors
            assert time.monotonic() < until, what
            time.sleep(POLL_INTERVAL_S)

    # -- the sample stream ---------------------------------------------------------------------------------------------

    def feed(self, stop: threading.Event) -> None:
        """Sends, scores and decides as producers and reviewers do, until it is told to stop."""
        try:
            sentences = itertools.cycle(make_sample_stream())
            for number in itertools.count():
                portion = list(itertools.islice(sentences, BATCH_SIZE))
                bad = {"id": f"bad-{number}", "tokens": ["a"], "labels": ["B-GHOST"]}
                self._call("POST", "/v1/sentences", {"sentences": [*portion, bad]})
                self._call("POST", "/v1/score", {"sentences": portion[:2]})
                self._decide_items(number)
                if stop.wait(POLL_INTERVAL_S):
                    return
        except Exception as error:  # noqa: BLE001 - told by whoever waits for what it would have brought
            self.feed_errors.append(f"{type(error).__name__}: {error}")

    def _decide_items(self, number: int) -> None:
        items = self._call("GET", "/v1/review?dataset=news&limit=2")["items"]
        verdicts = ("error", "ok", "error", "unsure")
        for place, item in enumerate(items):
            decision = {
                "dataset": "news",
                "id": item["id"],
                "reviewer": "rev",
                "verdict": verdicts[(number + place) % 4],
            }
            self._call("POST", "/v1/decisions", decision)

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = self.service.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        found: dict[str, Any] = answer.json()
        return found


@contextmanager
def run_process(arguments: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            arguments, cwd=ROOT, env={"PATH": os.environ["PATH"], **environment}, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield process
    except BaseException:
        sys.stderr.write(log.read_text(errors="replace")[-4000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def make_scrape_config(target: str) -> dict[str, Any]:
    """As it is deployed, but for where the service is, and how often it is asked."""
    config: dict[str, Any] = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    config["global"] |= {
        "scrape_interval": SCRAPE_INTERVAL,
        "scrape_timeout": SCRAPE_INTERVAL,
        "evaluation_interval": SCRAPE_INTERVAL,
    }
    config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
    config["scrape_configs"] = [one for one in config["scrape_configs"] if one["job_name"] == "labelwatch"]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    return config


@contextmanager
def run_monitored_service(folder: Path) -> Iterator[MonitoredService]:
    service, watcher = (f"{HOST}:{port}" for port in find_free_ports(2))
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(make_scrape_config(service)))
    up = [sys.executable, "-c", "from service.cli.main import main; main()", "up"]
    settings = {
        "LABELWATCH_LOG_PATH": str(folder / "log.sqlite"),
        "LABELWATCH_API_PORT": service.rpartition(":")[2],
        "LABELWATCH_METRICS_ANNOTATORS": "ann,ben",
    }
    program = shutil.which("prometheus")
    assert program, "there is no `prometheus`: run tests/system-packages prometheus"
    watch = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={watcher}",
        "--log.level=warn",
    ]
    with (
        run_process(up, folder / "service.log", **settings),
        run_process(watch, folder / "prometheus.log"),
        httpx.Client(base_url=f"http://{service}", trust_env=False, timeout=60) as here,
        httpx.Client(base_url=f"http://{watcher}", trust_env=False, timeout=60) as there,
    ):
        made = MonitoredService(here, there)
        made.wait_for("the service is ready", lambda: _is_ok(here, "/readyz"))
        made.wait_for("Prometheus is ready", lambda: _is_ok(there, "/-/ready"))
        # Counters have to be seen at 0 before they move.
        made.wait_for("the service is scraped", lambda: made.query('up{job="labelwatch"} == 1'))
        made._call("PUT", "/v1/datasets/news", {"control_share": 1.0})
        stop = threading.Event()
        feeder = threading.Thread(target=made.feed, args=(stop,))
        feeder.start()
        try:
            yield made
        finally:
            stop.set()
            feeder.join(60)


def _is_ok(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
