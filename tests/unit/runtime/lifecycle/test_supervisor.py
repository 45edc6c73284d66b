"""Threads under a supervisor: the first that ends without being stopped ends the process."""

from __future__ import annotations

import threading

import pytest

from service.runtime.lifecycle.supervisor import Supervisor, ThreadEndedError


def test_a_thread_that_ends_without_being_stopped_ends_the_process() -> None:
    supervisor, stopped = Supervisor(), threading.Event()

    def patient(stop: threading.Event) -> None:
        stop.wait()
        stopped.set()

    supervisor.start("patient", patient)
    supervisor.start("fickle", lambda stop: None)
    with pytest.raises(ThreadEndedError, match=r"^the thread `fickle` ended although it was not stopped$") as caught:
        supervisor.wait()
    assert caught.value.exit_code == 1
    assert stopped.is_set()


def test_a_failed_thread_is_reported_until_the_process_ends() -> None:
    supervisor, died, hold = Supervisor(), threading.Event(), threading.Event()

    def short(_: threading.Event) -> None:
        died.wait()
        raise RuntimeError("unexpected")

    supervisor.start("short", short)
    supervisor.start("long", lambda _: (hold.wait(), None)[1])
    assert supervisor.conditions == {"short": "", "long": ""}
    died.set()
    supervisor.stop.wait()
    assert supervisor.conditions == {"short": "the thread has died", "long": "the service is about to stop"}
    assert not supervisor.alive
    hold.set()
    with pytest.raises(ThreadEndedError, match="the thread `short` failed with RuntimeError: unexpected"):
        supervisor.wait()
