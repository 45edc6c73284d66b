"""Signals and log output of a process."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys

import pytest

from service.runtime.process import set_up_logging
from service.settings import Settings
from tests.support.command_harness import ROOT

STUBBORN_PROCESS = """
import sys, threading, time
from service.runtime.process import stop_on_signals
stop = threading.Event()
with stop_on_signals(stop):
    print("ready", flush=True)
    stop.wait()
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
