"""A worker's place in its consumer group: what it is given and what is taken away, noted for the main loop to act on."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)
from kafka.structs import MemberState

from service.errors import StreamError
from service.log.kafka.admin import find_member_id
from service.log.kafka.clients import CLIENT_ERRORS, create_group_consumer
from service.log.kafka.library_fixes.patches import describe_error
from service.log.protocol import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka import ConsumerGroupMetadata, KafkaConsumer
    from kafka.consumer.fetcher import ConsumerRecord

    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

OFFSET_LOST_ERRORS = (OffsetOutOfRangeError, LogTruncationError, NoOffsetForPartitionError)
FATAL_ERRORS = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedCodecError,
)
RETRY_INTERVAL_S = 0.5
JOIN_TIMEOUT_S = 5.0
JOIN_POLL_TIMEOUT_S = 0.5
CLOSE_TIMEOUT_MS = 5_000


class OffsetLostError(Exception):
    """Where to read on is not known any more, so every partition must be restored."""


class RebalanceEvent(NamedTuple):
    """What the group told: these partitions came, or went."""

    assigned: bool
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """Runs on the client's own thread, where little is allowed: it notes, and stops new partitions from being read.

    The seek is as much for the client's sake: it would ask for the group's committed offset otherwise, which can't
    be told while a dead worker's transaction is open.
    """

    consumer: KafkaConsumer
    events: deque[RebalanceEvent]

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        places = list(assigned)
        for place in places:
            self.consumer.seek(place, 0)
        self.consumer.pause(*places)
        self.events.append(RebalanceEvent(assigned=True, partitions=frozenset(place.partition for place in places)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.events.append(RebalanceEvent(assigned=False, partitions=frozenset(place.partition for place in revoked)))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.on_partitions_revoked(lost)


ConsumerRebalanceListener.register(RebalanceListener)


class GroupConsumer:
    """The consumer of the input topic. One thread uses it; a broken consumer is replaced by a new one."""

    def __init__(self, settings: KafkaSettings, topic: str, *, group: str, worker_id: str | None) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group
        self._worker_id = worker_id
        self._consumer: KafkaConsumer | None = None
        self._events: deque[RebalanceEvent] = deque()
        self._last_member_id: str | None = None  # the id under which the group had us in its last stable generation
        self._polled_at = time.monotonic()
        self.warning = ""

    @property
    def rebalance_pending(self) -> bool:
        return bool(self._events)

    def drain_rebalances(self) -> list[RebalanceEvent]:
        return [self._events.popleft() for _ in range(len(self._events))]

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll(self, *, max_records: int, timeout: float) -> Mapping[int, Sequence[ConsumerRecord]]:
        """Messages by partition. Raises `OffsetLostError`, `FencedError`, or `StreamError` where no waiting helps."""
        if not self._owns_identity():
            time.sleep(min(timeout, RETRY_INTERVAL_S))
            return {}
        try:
            found = self._poll_until_joined(self._ensure_consumer(), max_records, timeout)
        except FencedInstanceIdError as error:
            raise FencedError(self._describe_fencing()) from error
        except OFFSET_LOST_ERRORS as error:
            raise OffsetLostError(repr(error)) from error
        except FATAL_ERRORS as error:
            self._discard_consumer(error)
            advice = "; install kafka-python[lz4,snappy,zstd]" if isinstance(error, UnsupportedCodecError) else ""
            raise StreamError(f"{self._topic} can't be read: {describe_error(error)}{advice}") from error
        except (StreamError, *CLIENT_ERRORS) as error:
            self._discard_consumer(error)
            time.sleep(min(timeout, RETRY_INTERVAL_S))
            return {}
        self.warning = ""
        return {place.partition: messages for place, messages in found.items()}

    def _poll_until_joined(
        self, consumer: KafkaConsumer, max_records: int, timeout: float
    ) -> Mapping[TopicPartition, Sequence[ConsumerRecord]]:
        """While the group shares out its partitions, the poll goes on: left alone, the client forgets that it joins."""
        until = time.monotonic() + max(timeout, JOIN_TIMEOUT_S)
        while True:
            try:
                found = consumer.poll(timeout_ms=int(timeout * 1000), max_records=max_records)
            finally:
                self._update_identity()
            if found or self._events or not self._is_joining(consumer) or time.monotonic() > until:
                return cast("Mapping[TopicPartition, Sequence[ConsumerRecord]]", found)
            timeout = JOIN_POLL_TIMEOUT_S

    def _is_joining(self, consumer: KafkaConsumer) -> bool:
        if consumer.group_metadata().state != MemberState.REBALANCING:
            return False
        # A join that began because the topic's partitions changed, and was not done when a poll ended, would never be
        # taken up again.
        consumer._coordinator.request_rejoin()  # noqa: SLF001 - there is no other way to say it
        return True

    def _ensure_consumer(self) -> KafkaConsumer:
        if self._consumer is None:
            made = create_group_consumer(self._settings, group=self._group, worker_id=self._worker_id)
            try:
                self._subscribe(made)
            except BaseException:
                made.close(autocommit=False, timeout_ms=0)
                raise
            self._consumer = made
        return self._consumer

    def _subscribe(self, consumer: KafkaConsumer) -> None:
        consumer.subscribe([self._topic], listener=RebalanceListener(consumer, self._events))
        # Whoever joins before it knows the partitions shares out none, and everybody has to join again.
        if not consumer.partitions_for_topic(self._topic):
            raise StreamError(
                f"the topic {self._topic} does not exist: run `labelwatch topics create`; or it does, and this user may not "
                "see it: grant READ and DESCRIBE"
            )

    def _discard_consumer(self, error: Exception) -> None:
        """The next poll joins anew; until then nothing is ours."""
        self._warn(f"{self._topic} can't be read, trying with a new consumer: {describe_error(error)}")
        if self._consumer is not None:
            gone = frozenset(place.partition for place in self._consumer.assignment())
            self.close()
            self._last_member_id = None
            self._events.append(RebalanceEvent(assigned=False, partitions=gone))

    def _warn(self, warning: str) -> None:
        if warning != self.warning:
            logger.warning("%s", warning)
        self.warning = warning

    def group_metadata(self) -> ConsumerGroupMetadata | None:
        """Whom the group takes us for at this moment."""
        return None if self._consumer is None else self._consumer.group_metadata()

    # A partition may go at any moment, and then there is nothing to ask or to move: the note about it says the rest.

    def highwater(self, partition: int) -> int | None:
        return self._try_call(lambda consumer, place: consumer.highwater(place), partition)

    def committed(self, partition: int, *, timeout_ms: int) -> int | None:
        return self._try_call(lambda consumer, place: consumer.committed(place, timeout_ms=timeout_ms), partition)

    def pause(self, partition: int) -> None:
        self._try_call(lambda consumer, place: consumer.pause(place), partition)

    def resume_from(self, partition: int, offset: int) -> None:
        self.seek(partition, offset)
        self._try_call(_drop_paused_records, partition)
        self._try_call(lambda consumer, place: consumer.resume(place), partition)

    def seek(self, partition: int, offset: int) -> None:
        self._try_call(lambda consumer, place: consumer.seek(place, offset), partition)

    def _try_call(self, call: Callable[[KafkaConsumer, TopicPartition], int | None], partition: int) -> int | None:
        if self._consumer is None:
            return None
        try:
            return call(self._consumer, TopicPartition(self._topic, partition))
        except CLIENT_ERRORS:
            return None

    # -- identity --------------------------------------------------------------------------------------------------

    def _update_identity(self) -> None:
        now = self.group_metadata()
        if now is not None and now.state == MemberState.STABLE and now.member_id:
            self._last_member_id = now.member_id
        elif now is not None and now.state == MemberState.REBALANCING:
            self._last_member_id = None  # the answer to our join will bring a new one
        self._polled_at = time.monotonic()

    def _owns_identity(self) -> bool:
        """A worker that was stopped for long must not join again where its identity was given to another meanwhile.

        False where that can't be told at the moment.
        """
        if self._worker_id is None or self._last_member_id is None:
            return True
        if time.monotonic() - self._polled_at < self._settings.session_timeout_ms / 1000:
            return True
        try:
            holder = self._find_identity_holder()
        except StreamError as error:
            self._warn(f"who works as {self._worker_id} can't be told: {error}")
            return False
        if holder not in (None, self._last_member_id):
            raise FencedError(self._describe_fencing())
        return True

    def can_claim_id(self) -> bool:
        """Whether the transactional id, which goes with the identity, is ours to take."""
        if self._worker_id is None:
            return True
        now = self.group_metadata()
        if now is None or now.state != MemberState.STABLE or not now.member_id:
            return False
        holder = self._find_identity_holder()
        if holder not in (None, now.member_id):
            raise FencedError(self._describe_fencing())
        return holder is not None

    def _find_identity_holder(self) -> str | None:
        return (
            None
            if self._worker_id is None
            else find_member_id(self._settings, group=self._group, worker_id=self._worker_id)
        )

    def _describe_fencing(self) -> str:
        return f"another process works as {self._worker_id} in the group {self._group}: every worker needs its own id"

    def close(self) -> None:
        """One with a fixed identity stays a member, so that a restart moves nothing; another leaves at once."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(*CLIENT_ERRORS):
                consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)


def _drop_paused_records(consumer: KafkaConsumer, place: TopicPartition) -> None:
    """What was fetched and not handed out when the partition was stopped.

    The library hands it out, and fetches more, only once no records of another partition are in line; with some
    already read in line, that is never. After a seek it is of no use.
    """
    consumer._fetcher._paused_partition_records.pop(place, None)  # noqa: SLF001 - there is no other way to it
