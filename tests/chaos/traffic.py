"""A producer that continues whatever happens to the brokers, and a monitor of the workers' progress."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Self

from kafka import KafkaProducer, TopicPartition

from tests.chaos.reading import TRANSIENT_ERRORS, open_consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka import KafkaConsumer
    from kafka.producer.future import FutureRecordMetadata

    from service.contracts import DatasetSettings
    from service.log.topics import Topics
    from tests.chaos.messages import GeneratedMessage

SEND_TIMEOUT_S = 300.0
MAX_BACKLOG = 300  # so many that no worker waits for messages, so few that a slow machine catches up


def open_producer(servers: str) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=servers.split(","),
        acks="all",
        delivery_timeout_ms=int(SEND_TIMEOUT_S * 1000),
        max_block_ms=int(SEND_TIMEOUT_S * 1000),
        request_timeout_ms=5_000,
        reconnect_backoff_max_ms=1_000,
        metrics_enabled=False,
    )


def send_settings(servers: str, topics: Topics, datasets: Iterable[DatasetSettings]) -> None:
    """Sends dataset settings. The first ones must be there before the workers start: the checks expect no defaults.

    Only the fields that are set are sent: workers of an earlier version know no others.
    """
    with open_producer(servers) as producer:
        futures = [
            producer.send(
                topics.datasets, key=settings.name.encode(), value=settings.model_dump_json(exclude_unset=True).encode()
            )
            for settings in datasets
        ]
        for future in futures:
            future.get(timeout=SEND_TIMEOUT_S)


class LoadGenerator:
    """Sends messages at a steady rate until `finish` is called. It waits while the workers are far behind."""

    def __init__(
        self,
        servers: str,
        topic: str,
        messages: Iterator[GeneratedMessage],
        *,
        rate: float,
        count_processed: Callable[[], int],
    ) -> None:
        self._producer = open_producer(servers)
        self._topic = topic
        self._messages = messages
        self._interval_s = 1 / rate
        self._count_processed = count_processed
        self._stop = threading.Event()
        self._paused = False
        self._thread = threading.Thread(target=self._run, name="load-generator", daemon=True)
        self._futures: dict[int, FutureRecordMetadata] = {}
        self.sent: dict[int, GeneratedMessage] = {}
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.close(timeout=1)

    def _run(self) -> None:
        due = time.monotonic()
        try:
            for message in self._messages:
                self.sent[message.serial] = message
                self._futures[message.serial] = self._producer.send(
                    self._topic, key=message.key, value=message.value, headers=list(message.headers)
                )
                due = max(due + self._interval_s, time.monotonic() - 1)  # makes up for one second at most
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return
                while self._must_wait() and not self._stop.wait(0.1):
                    pass
        except BaseException as error:  # noqa: BLE001 - `finish` raises it
            self.error = error

    def _must_wait(self) -> bool:
        return self._paused or len(self.sent) - self._count_processed() > MAX_BACKLOG

    def pause(self) -> None:
        """Sends nothing until `resume`."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    @property
    def end_offsets(self) -> dict[int, int] | None:
        """The ends of the partitions after the acknowledged messages; none while acknowledgements are missing."""
        ends: dict[int, int] = {}
        for future in list(self._futures.values()):
            if not future.succeeded():
                return None
            ends[future.value.partition] = max(ends.get(future.value.partition, 0), future.value.offset + 1)
        return ends

    def list_arrivals(self) -> dict[tuple[int, int], int]:
        """The times of the acknowledged messages in milliseconds, by partition and offset."""
        return {
            (future.value.partition, future.value.offset): future.value.timestamp
            for future in list(self._futures.values())
            if future.succeeded()
        }

    def finish(self) -> set[int]:
        """Stops sending. Returns the serial numbers of the acknowledged messages."""
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error
        self._producer.flush(timeout=SEND_TIMEOUT_S)
        return {serial for serial, future in self._futures.items() if future.succeeded()}


class ProgressMonitor:
    """Follows the positions in the state topic, as any reader of committed messages can."""

    def __init__(self, servers: str, topics: Topics, *, partitions: int) -> None:
        self._servers = servers
        self._partitions = [TopicPartition(topics.state, number) for number in range(partitions)]
        self._next_offsets = dict.fromkeys(self._partitions, 0)
        self._close = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress-monitor", daemon=True)
        self.history: dict[int, list[tuple[int, int]]] = {number: [] for number in range(partitions)}
        self.last_progress_at = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._close.set()
        self._thread.join()

    @property
    def positions(self) -> dict[int, int]:
        return {partition: steps[-1][1] for partition, steps in self.history.items() if steps}

    def _run(self) -> None:
        while not self._close.is_set():
            try:
                with open_consumer(self._servers) as consumer:
                    self._follow(consumer)
            except TRANSIENT_ERRORS:
                time.sleep(0.5)

    def _follow(self, consumer: KafkaConsumer) -> None:
        consumer.assign(self._partitions)
        for state_partition, offset in self._next_offsets.items():
            consumer.seek(state_partition, offset)
        while not self._close.is_set():
            for state_partition, records in consumer.poll(timeout_ms=200).items():
                for record in records:
                    self._next_offsets[state_partition] = record.offset + 1
                    kind, partition, *_ = json.loads(record.key)
                    if kind == "position":
                        offset = json.loads(record.value)["next_offset"]
                        self.history[partition].append((record.timestamp, offset))
                        self.last_progress_at = time.monotonic()
