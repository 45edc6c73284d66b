from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from kafka.errors import (
    FencedInstanceIdError,
    InvalidProducerEpochError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
)

from service.log.kafka.client_errors import (
    WORKER_FENCED_ERRORS,
    WRITER_FENCED_ERRORS,
    describe_error,
    describe_failure,
    is_caused_by,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_class_of_an_error_is_named_once() -> None:
    assert describe_error(KafkaTimeoutError("no metadata")) == "KafkaTimeoutError: no metadata"
    assert describe_error(OSError("no route")) == "OSError: no route"


@pytest.mark.parametrize(
    "error", [KafkaTimeoutError("no metadata"), KafkaConnectionError("refused"), ConnectionResetError(), TimeoutError()]
)
def test_brokers_that_are_silent_do_not_answer(error: Exception) -> None:
    assert describe_failure("a:1,b:2", error) == f"Kafka at a:1,b:2 does not answer: {describe_error(error)}"


@pytest.mark.parametrize("error", [TopicAuthorizationFailedError(), FileNotFoundError("ca.pem"), ValueError("odd")])
def test_an_answer_that_refuses_is_an_answer(error: Exception) -> None:
    assert describe_failure("a:1", error) == f"Kafka at a:1: {describe_error(error)}"


@pytest.mark.parametrize(
    "present",
    [lambda error: error, KafkaError, lambda error: RuntimeError(f"the sender failed: {error!r}")],
    ids=["itself", "wrapped", "quoted"],
)
@pytest.mark.parametrize(
    ("error", "fences_worker", "fences_writer"),
    [
        (ProducerFencedError(), True, True),
        (FencedInstanceIdError(), True, False),
        # After a transaction time-out a broker answers this although no other process exists: the worker must continue.
        (InvalidProducerEpochError(), False, True),
        (KafkaTimeoutError("no answer"), False, False),
    ],
)
def test_fencing_is_recognised_however_the_client_presents_it(
    error: KafkaError, fences_worker: bool, fences_writer: bool, present: Callable[[KafkaError], Exception]
) -> None:
    presented = present(error)
    assert is_caused_by(presented, WORKER_FENCED_ERRORS) is fences_worker
    assert is_caused_by(presented, WRITER_FENCED_ERRORS) is fences_writer


def test_fencing_is_found_in_the_futures_that_are_done() -> None:
    timeout = KafkaTimeoutError("flush")
    fenced = SimpleNamespace(is_done=True, exception=ProducerFencedError())
    delivered = SimpleNamespace(is_done=True, exception=None)
    pending = SimpleNamespace(is_done=False, exception=ProducerFencedError())
    assert is_caused_by(timeout, WORKER_FENCED_ERRORS, [delivered, fenced])
    assert not is_caused_by(timeout, WORKER_FENCED_ERRORS, [delivered, pending])
