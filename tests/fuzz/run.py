"""Runs targets with mutated inputs for some seconds. The same seed gives the same inputs, in the same order."""

from __future__ import annotations

import itertools
import random
import signal
import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.fuzz.mutations import mutate, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from tests.fuzz.targets import Target

MAX_CPU_S = 10.0  # of one case; the limits of sizes allow about one


class HangError(BaseException):
    """A case that takes too long. No Exception, so that nothing handles it."""


@dataclass(frozen=True, slots=True)
class Failure:
    target: str
    case: int
    data: bytes
    error: str


@contextmanager
def limit_cpu(seconds: float) -> Iterator[None]:
    """Raises `HangError` in the main thread when the process has used so much CPU."""

    def raise_hang(number: int, frame: FrameType | None) -> None:
        raise HangError(f"more than {seconds:g} s of CPU")

    previous = signal.signal(signal.SIGPROF, raise_hang)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def run_case(target: Target, data: bytes) -> tuple[str, str] | None:
    """The kind of the error that the target must not raise, and its traceback."""
    try:
        with limit_cpu(MAX_CPU_S):
            target.read(data)
    except target.allowed:
        return None
    except (Exception, HangError) as error:  # noqa: BLE001 - any other error is a finding
        return type(error).__name__, "".join(traceback.format_exception(error)[-6:])
    return None


def fuzz(
    targets: Sequence[Target], *, seed: int, seconds: float = float("inf"), rounds: int | None = None
) -> tuple[int, list[Failure]]:
    """How many cases ran, and the first failure of each kind per target, with the shortest input that was found."""
    deadline, count = time.monotonic() + seconds, 0
    failures: dict[tuple[str, str], Failure] = {}
    generators = {target.name: random.Random(f"{seed} {target.name}") for target in targets}
    for _ in itertools.count() if rounds is None else range(rounds):
        if time.monotonic() >= deadline:
            break
        for target in targets:
            count += 1
            generator = generators[target.name]
            data = mutate(generator.choice(target.inputs), generator)
            found = run_case(target, data)
            if found is None or (target.name, found[0]) in failures:
                continue
            shortest = data if found[0] == HangError.__name__ else shorten(data, partial(_fails_as, target, found[0]))
            error = (run_case(target, shortest) or found)[1]
            failures[target.name, found[0]] = Failure(target.name, count, shortest, error)
    return count, list(failures.values())


def _fails_as(target: Target, kind: str, data: bytes) -> bool:
    found = run_case(target, data)
    return found is not None and found[0] == kind
