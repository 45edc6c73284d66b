"""A producer that goes on whatever happens to the brokers, and an onlooker who sees how far the workers are."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Self

from kafka import KafkaProducer, TopicPartition

from tests.chaos.messages import DATASETS
from tests.chaos.reading import TRANSIENT_ERRORS, open_consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka import KafkaConsumer
    from kafka.producer.future import FutureRecordMetadata

    from service.log.topics import Topics
    from tests.chaos.messages import GeneratedMessage

SEND_TIMEOUT_S = 300.0
MAX_BACKLOG = 300  # enough that no worker ever waits for work, little enough that a slow machine gets through


def open_producer(servers: str) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=servers.split(","),
        acks="all",
        delivery_timeout_ms=int(SEND_TIMEOUT_S * 1000),
        max_block_ms=int(SEND_TIMEOUT_S * 1000),
        reconnect_backoff_max_ms=1_000,
        metrics_enabled=False,
    )


def send_settings(servers: str, topics: Topics) -> None:
    """Before the workers start: a sentence judged before its dataset was set up would be right too, but not checkable."""
    with open_producer(servers) as sender:
        futures = [
            sender.send(topics.datasets, key=one.name.encode(), value=one.model_dump_json().encode())
            for one in DATASETS
        ]
        for future in futures:
            future.get(timeout=SEND_TIMEOUT_S)


class LoadGenerator:
    """Sends messages at a steady rate until it is told that there were enough; waits where the workers are far behind."""

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
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
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
            for one in self._messages:
                self.sent[one.serial] = one
                self._futures[one.serial] = self._producer.send(
                    self._topic, key=one.key, value=one.value, headers=list(one.headers)
                )
                due = max(due + self._interval_s, time.monotonic() - 1)  # what was missed for long is not made up for
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return
                while self._must_wait() and not self._stop.wait(0.1):
                    pass
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits for us
            self.error = error

    def _must_wait(self) -> bool:
        return self._paused or len(self.sent) - self._count_processed() > MAX_BACKLOG

    def pause(self) -> None:
        """Sends nothing more until it is released."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    @property
    def end_offsets(self) -> dict[int, int] | None:
        """Where the partitions end, by what was acknowledged; none while answers are missing."""
        ends: dict[int, int] = {}
        for future in list(self._futures.values()):
            if not future.succeeded():
                return None
            ends[future.value.partition] = max(ends.get(future.value.partition, 0), future.value.offset + 1)
        return ends

    def finish(self) -> set[int]:
        """Stops sending; gives the serial numbers of what the brokers have acknowledged."""
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error
        self._producer.flush(timeout=SEND_TIMEOUT_S)
        return {serial for serial, future in self._futures.items() if future.succeeded()}


class ProgressMonitor:
    """Follows the positions in the state topic as any reader of committed messages could."""

    def __init__(self, servers: str, topics: Topics, *, partitions: int) -> None:
        self._servers = servers
        self._partitions = [TopicPartition(topics.state, number) for number in range(partitions)]
        self._next_offsets = dict.fromkeys(self._partitions, 0)
        self._close = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onlooker", daemon=True)
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
                with open_consumer(self._servers) as reader:
                    self._follow(reader)
            except TRANSIENT_ERRORS:
                time.sleep(0.5)

    def _follow(self, reader: KafkaConsumer) -> None:
        reader.assign(self._partitions)
        for place, offset in self._next_offsets.items():
            reader.seek(place, offset)
        while not self._close.is_set():
            for place, records in reader.poll(timeout_ms=200).items():
                for record in records:
                    self._next_offsets[place] = record.offset + 1
                    kind, partition, *_ = json.loads(record.key)
                    if kind == "position":
                        offset = json.loads(record.value)["next_offset"]
                        self.history[partition].append((record.timestamp, offset))
                        self.last_progress_at = time.monotonic()
