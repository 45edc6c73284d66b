"""What `make run` promises to somebody with a fresh clone, from the ready line to Ctrl-C and a second start."""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from service.log.codec import parse_position, to_position_key
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.log.protocol import Record

ROOT = Path(__file__).resolve().parents[2]
WAIT = 120.0
TOPICS = Topics()
ASSESSED = 'labelwatch_assessed_sentences_total{dataset="sample"}'
FLAGGED = 'labelwatch_flagged_sentences_total{dataset="sample"}'


def command() -> list[str]:
    """The Makefile's own, but for where it is called from: files are named as seen from the checkout."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    told = subprocess.run(["make", "-n", "run"], cwd=ROOT, env=clean, capture_output=True, text=True, check=True).stdout
    exec_, program, *arguments = shlex.split(told.splitlines()[-1])
    assert (exec_, program) == ("exec", ".venv/bin/labelwatch")
    installed = Path(sys.executable).with_name("labelwatch")
    return [str(installed), *(str(ROOT / each) if (ROOT / each).is_file() else each for each in arguments)]


class Run:
    """One start of the service, in a session of its own, so that whatever it leaves behind can be found."""

    def __init__(self, process: subprocess.Popen[str], client: httpx.Client, urls: dict[str, str]) -> None:
        self._process = process
        self.client = client
        self.urls = urls

    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.get("/v1/review", params={"limit": 100}).json()["items"]
        return found

    def metric(self, name: str) -> float:
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))

    def until(self, holds: Callable[[], bool]) -> None:
        last = time.monotonic() + WAIT
        while not holds():
            assert self._process.poll() is None, self._process.communicate()[1]
            assert time.monotonic() < last
            time.sleep(0.05)

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal gives it to everything it started. Gives how many messages were read."""
        os.killpg(self._process.pid, signal.SIGINT)
        _, err = self._process.communicate(timeout=WAIT)
        assert self._process.returncode == 0, err
        assert "Traceback" not in err
        found = re.search(r"labelwatch has stopped: ([\d,]+) messages? read, \d+ to review, 0 dead letters\n$", err)
        assert found, err
        assert not group_lives(self._process.pid)
        return int(found[1].replace(",", ""))


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def started(folder: Path) -> Iterator[Run]:
    process = subprocess.Popen(
        command(),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LABELWATCH_API_PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            assert ready.select(WAIT), "it does not say that it is ready"
        line = process.stdout.readline()
        assert line.startswith("labelwatch is ready: "), line
        urls = {Path(url).name: url for url in re.findall(r"http://127\.0\.0\.1:\d+/\w+", line)}
        found = re.search(r"http://127\.0\.0\.1:\d+/(?= )", line)
        assert found, line
        with httpx.Client(base_url=found[0], timeout=WAIT) as client:
            yield Run(process, client, urls)
    finally:
        if group_lives(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def log_of(folder: Path, topic: str) -> list[Record]:
    with closing(SqliteLog(folder / ".labelwatch" / "log.sqlite", TOPICS)) as stream:
        return list(stream.read(topic, 0, 1_000_000))


def next_offset(folder: Path) -> int:
    positions = [record.value for record in log_of(folder, TOPICS.state) if record.key == to_position_key(0)]
    assert positions[-1] is not None
    return parse_position(positions[-1])


def test_a_first_run_ctrl_c_and_a_second(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        assert set(run.urls) == {"docs", "metrics", "readyz"}
        assert [run.client.get(url).status_code for url in run.urls.values()] == [200, 200, 200]
        page = run.client.get("/")
        assert page.headers["content-type"].startswith("text/html")
        named = re.findall(r'(?:src|href)="([^"#:]+\.(?:js|css|svg))"', page.text)
        assert named, "the console is more than its page"
        assert [run.client.get(name).status_code for name in named] == [200] * len(named)
        run.until(lambda: bool(run.items()))
        run.until(lambda: run.metric(ASSESSED) > run.metric(FLAGGED) > 0)
        shown = run.items()
        assert {item["dataset"] for item in shown} == {"sample"}
        assert all(item["doubtful"] for item in shown)
        read_first = run.interrupt()
    assert {path.name for path in tmp_path.iterdir()} == {".labelwatch"}
    assert next_offset(tmp_path) == read_first > 0
    first = [record.key for record in log_of(tmp_path, TOPICS.sentences)]

    with started(tmp_path) as run:
        run.until(lambda: {item["id"] for item in run.items()} >= {item["id"] for item in shown})
        run.until(lambda: run.metric(ASSESSED) >= 5)
        run.until(lambda: len(log_of(tmp_path, TOPICS.sentences)) >= len(first) + 5)
        read_second = run.interrupt()
    # It went on where it was: nothing is sent again, nothing is read again, nothing comes to review again.
    sent = [record.key for record in log_of(tmp_path, TOPICS.sentences)]
    assert sent[: len(first)] == first
    assert len(set(sent)) == len(sent) > len(first)
    assert next_offset(tmp_path) == read_first + read_second
    reviewed = [record.key for record in log_of(tmp_path, TOPICS.review)]
    assert len(set(reviewed)) == len(reviewed) >= len(shown)
    assert {json.loads(record.value or b"")["dataset"] for record in log_of(tmp_path, TOPICS.sentences)} == {"sample"}
