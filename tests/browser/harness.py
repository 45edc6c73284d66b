"""One running service and one browser for all browser tests. Each test uses its own dataset."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from service.access.key_text import generate_key, hash_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

ROOT = Path(__file__).resolve().parents[2]
REVIEWERS = ("Marta", "Ana", "Ben", "Zoe")  # their keys have these names
SAMPLE = ROOT / "models" / "sample" / "sample.tsv"
WAIT_TIMEOUT_S = 90.0  # long enough for a busy machine
NETWORK_ERROR = re.compile(r"Failed to load resource: net::ERR_")
STATUS_ERROR = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")
SCREENSHOT_FOLDER = os.environ.get("LABELWATCH_SCREENSHOTS")  # a folder for screenshots


def find_chromium() -> str:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("the browser tests need Chromium: apt-get install chromium", pytrace=False)
    return path


def find_browser_arguments() -> list[str]:
    """Root can't use the browser's sandbox. The tests load only the console."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


def wait_for(poll: Callable[[], Any], event: str) -> Any:
    until = time.monotonic() + WAIT_TIMEOUT_S
    while time.monotonic() < until:
        result = poll()
        if result:
            return result
        time.sleep(0.05)
    pytest.fail(f"{event} did not happen within {WAIT_TIMEOUT_S:.0f} s")


def read_sample() -> list[dict[str, Any]]:
    """The words and labels of each sentence of the sample data."""
    return read_sentences(SAMPLE)


def read_sentences(path: Path) -> list[dict[str, Any]]:
    sentences = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines()]
        sentences.append({"tokens": [row[0] for row in rows], "labels": [row[1] for row in rows]})
    return sentences


@dataclass
class ServiceProcess:
    """A `labelwatch up` process with keys of an admin, of reviewers, of an annotator, and one that only reads."""

    address: str
    write_key: str
    read_key: str
    annotator_key: str
    reviewer_keys: dict[str, str]
    log_path: Path
    flagged_sentences: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, path: str, **more: Any) -> Any:
        answer = httpx.request(
            method, f"{self.address}{path}", headers={"X-API-Key": self.write_key}, timeout=30, **more
        )
        assert answer.status_code < 300, answer.text
        return answer.json()

    def send(self, *sentences: dict[str, Any]) -> None:
        self.call("POST", "/v1/sentences", json={"sentences": list(sentences)})

    def list_items(self, dataset: str, **wanted: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.call(
            "GET", "/v1/review", params={"dataset": dataset, "limit": 200, **wanted}
        )["items"]
        return items

    def get_item(self, dataset: str, name: str) -> dict[str, Any]:
        item: dict[str, Any] = self.call("GET", f"/v1/review/{dataset}/{quote(name, safe='')}")
        return item

    def decide(self, dataset: str, name: str, reviewer: str, verdict: str, **more: Any) -> None:
        body = {"dataset": dataset, "id": name, "reviewer": reviewer, "verdict": verdict, **more}
        self.call("POST", "/v1/decisions", json=body)

    def fill_queue(self, dataset: str, count: int, **more: Any) -> list[str]:
        """Sends `count` doubtful sentences to a dataset. Returns their ids in the order of the queue, worst first."""
        sentences = [
            {**sentence, "dataset": dataset, "id": f"s-{number}", "annotator": ("kim", "ada")[number % 2], **more}
            for number, sentence in enumerate(self.flagged_sentences[:count])
        ]
        self.send(*sentences)
        items = wait_for(
            lambda: len(self.list_items(dataset)) == count and self.list_items(dataset), f"the queue of {dataset}"
        )
        return [item["id"] for item in items]


def _send_sample(service: ServiceProcess) -> None:
    """Sends the sample data, and notes its doubtful sentences once all of it is learned."""
    service.send(
        *(
            {**sentence, "dataset": "sample", "id": str(number), "annotator": "bo"}
            for number, sentence in enumerate(read_sample())
        )
    )

    def has_learned_sample() -> bool:
        datasets = service.call("GET", "/v1/datasets")["datasets"]
        return any(dataset["name"] == "sample" and dataset["sentences"] == len(read_sample()) for dataset in datasets)

    wait_for(has_learned_sample, "learning the sample")
    doubtful = [
        {"tokens": item["tokens"], "labels": item["labels"]}
        for item in service.list_items("sample")
        if item["suspects"]
    ]
    # Tests send them to new datasets, whose thresholds are those of the model alone.
    scored = service.call("POST", "/v1/score", json={"sentences": doubtful})["assessments"]
    service.flagged_sentences = [
        sentence for sentence, assessment in zip(doubtful, scored, strict=True) if assessment["suspects"]
    ]
    assert len(service.flagged_sentences) > 26


@contextmanager
def run_service(folder: Path, *, sample: bool = True, keyless: bool = False) -> Iterator[ServiceProcess]:
    """Runs the service on the embedded log and sends it the sample data, unless `sample` is off."""
    write, read, annotator = generate_key(), generate_key(), generate_key()
    reviewers = {name: generate_key() for name in REVIEWERS}
    keys = [f"team:write:{hash_key(write)}", f"guest:read:{hash_key(read)}", f"kim:annotator:{hash_key(annotator)}"]
    keys += [f"{name}:reviewer:{hash_key(key)}" for name, key in reviewers.items()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LABELWATCH_")} | {
        "LABELWATCH_LOG_PATH": str(folder / "log.sqlite"),
        "LABELWATCH_MODELS_PATH": str(folder / "models"),
        "LABELWATCH_API_PORT": "0",
        "LABELWATCH_WEBHOOKS_KEY": "k" * 32,
        "LABELWATCH_WEBHOOKS_ALLOWED_HOSTS": "127.0.0.1",
        "LABELWATCH_API_KEYS": "" if keyless else ",".join(keys),
    }
    command = [sys.executable, "-c", "from service.cli.main import main; main()", "up"]
    stderr = folder / "stderr.txt"
    with stderr.open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert process.stdout is not None
        ready = re.match(r"labelwatch is ready: (http://\S+?)/ ", process.stdout.readline().decode())
        assert ready is not None, stderr.read_text()
        service = ServiceProcess(ready[1], write, read, annotator, reviewers, folder / "log.sqlite")
        if sample:
            _send_sample(service)
        yield service
    finally:
        process.terminate()
        process.communicate(timeout=60)


@dataclass
class BrowserHarness:
    """Opens pages for reviewers. An error or warning in the browser's console fails the test."""

    browser: Browser
    service: ServiceProcess
    contexts: list[BrowserContext] = field(default_factory=list)
    console_errors: list[str] = field(default_factory=list)
    expected_statuses: set[int] = field(default_factory=set)
    requested_urls: set[str] = field(default_factory=set)
    offline: bool = False

    def new_context(self, reviewer: str | None = "Marta", key: str | None = "", **options: Any) -> BrowserContext:
        """A separate browser context. An empty `key` is that of the reviewer, or of the admin without one; None is no key."""
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        stored_key = self.service.reviewer_keys.get(reviewer or "", self.service.write_key) if key == "" else key
        if stored_key:
            context.add_init_script(
                f"if (location.protocol === 'http:') sessionStorage.setItem('labelwatch.key', {json.dumps(stored_key)})"
            )
        context.on("console", self._on_console_message)
        context.on("weberror", lambda error: self.console_errors.append(str(error.error)))
        context.on("request", lambda request: self.requested_urls.add(request.url))
        self.contexts.append(context)
        return context

    def open_page(self, path: str = "", **options: Any) -> Page:
        page = self.new_context(**options).new_page()
        page.goto(f"{self.service.address}/{path}")
        return page

    def _on_console_message(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if self.offline and NETWORK_ERROR.match(message.text):
            return
        refused = STATUS_ERROR.match(message.text)
        if refused is None or int(refused[1]) not in self.expected_statuses:
            self.console_errors.append(f"{message.text} {message.location.get('url', '')}")

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        assert not self.console_errors, "\n".join(self.console_errors)
        foreign = {url for url in self.requested_urls if not url.startswith(f"{self.service.address}/")}
        assert foreign == set(), "the page requests other origins"


def take_screenshot(page: Page, name: str, *, full_page: bool = False) -> bytes:
    """Takes a screenshot and saves it in the folder LABELWATCH_SCREENSHOTS, if set."""
    page.evaluate("scrollTo(0, 0)")
    picture = page.screenshot(full_page=full_page)
    if SCREENSHOT_FOLDER:
        folder = Path(SCREENSHOT_FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.png").write_bytes(picture)
    return picture
