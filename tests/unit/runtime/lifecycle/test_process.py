"""Signals and log output of a process."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from service.runtime.lifecycle.process import FORCED_EXIT_CODE, set_up_logging
from service.settings import Settings
from tests.support.command_harness import ROOT
from tests.support.endless_graph import make_endless
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

STUBBORN_PROCESS = """
import sys, threading, time
from service.runtime.lifecycle.process import stop_on_signals
stop = threading.Event()
with stop_on_signals(stop):
    print("ready", flush=True)
    while not stop.is_set():  # the handler runs in this thread: within `wait` it might find the lock of the event taken
        time.sleep(0.01)
    print("asked", flush=True)
    while True:
        time.sleep(0.1)
"""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(second: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN_PROCESS], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(second)
        assert process.wait(60) == -second


BUSY_PROCESS = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from service.runtime.lifecycle.process import exit_after, stop_on_signals
stop = threading.Event()
def work():
    while True:
        sum(range(1000))
exit_after(stop, 0.5)
with stop_on_signals(stop):
    ThreadPoolExecutor(1, thread_name_prefix="busy").submit(work)
    print("ready", flush=True)
    while not stop.is_set():
        time.sleep(0.01)
"""


def test_sigterm_ends_a_process_with_a_thread_that_does_not_end() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", BUSY_PROCESS], cwd=ROOT, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == FORCED_EXIT_CODE
        assert process.stderr is not None
        assert "busy_0" in process.stderr.read()


LIMITED_PROCESS = """
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
hard = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
from service.runtime.lifecycle.process import raise_file_limit
print(raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard)
"""


def test_the_limit_of_file_descriptors_is_raised() -> None:
    ran = subprocess.run([sys.executable, "-c", LIMITED_PROCESS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


SHORT_CHECK = """
import sys
from service.cli.files import model
model.MAX_CHECK_S = 3.0
model.check(sys.argv[1])
"""


def test_the_check_of_a_model_that_never_answers_ends(tmp_path: Path) -> None:
    """On a slow machine it may end before the graph runs: then, too, with the message."""
    folder = make_model(tmp_path / "endless", "wordpiece")
    make_endless(folder / "model.onnx")
    ran = subprocess.run(
        [sys.executable, "-c", SHORT_CHECK, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (FORCED_EXIT_CODE, "")
    assert "its graph may never end" in ran.stderr


STUCK_COMMAND = """
import sys, time
from service.runtime import worker
from service.runtime.api import process, server
from service.runtime.training import run as trainer

def get_stuck(*_, **__):
    print("stuck", flush=True)
    time.sleep(1000)

module, name, owner = {
    "api": (process, "run", server.SupervisedServer),
    "worker": (worker, "run", worker.WorkerRunner),
    "trainer": (trainer, "run", trainer.Trainer),
}[sys.argv[1]]
module.MAX_STOP_S = 0.2
setattr(owner, name, get_stuck)
from service.cli.main import main
main()
"""


@pytest.mark.parametrize("command", ["api", "worker", "trainer"])
def test_sigterm_ends_every_command_whatever_runs(command: str, tmp_path: Path, tiny_model: Path) -> None:
    variables = {"LOG_PATH": tmp_path / "log.sqlite", "MODEL_FOLDER": tiny_model, "API_PORT": 0}
    with subprocess.Popen(
        [sys.executable, "-c", STUCK_COMMAND, command],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **{f"LABELWATCH_{name}": str(value) for name, value in variables.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "stuck\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == FORCED_EXIT_CODE
            assert process.stderr is not None
            assert re.search(rf"not done after 0\.2 s: .*\b{command}\b.* still run", process.stderr.read())
        finally:
            process.kill()


def test_logs_mask_the_secrets_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    digest = "ab" * 32
    for name, value in {
        "KAFKA_BOOTSTRAP_SERVERS": "localhost:1",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_SASL_USERNAME": "joe",
        "KAFKA_SASL_PASSWORD": "hunter2, and more",
        "API_KEYS": f"ci:read:{digest}",
    }.items():
        monkeypatch.setenv(f"LABELWATCH_{name}", value)
    set_up_logging(Settings())
    try:
        logging.getLogger("service.x").info("%s", ["ci", "hunter2, and more", digest])
    finally:
        root = logging.getLogger()
        root.handlers[:] = [handler for handler in root.handlers if handler.get_name() != "labelwatch"]
    assert capfd.readouterr().err.endswith("INFO service.x: ['ci', '****', '****']\n")
