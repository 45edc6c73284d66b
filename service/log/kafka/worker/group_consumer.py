"""A worker's membership in its consumer group. Rebalance events are queued for the main loop to apply."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from threading import Event
from typing import TYPE_CHECKING, cast

from kafka import TopicPartition
from kafka.errors import (
    CorruptRecordError,
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
from service.log.kafka.admin import find_member_id, list_group_identities, remove_group_member
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_error, describe_missing_topic
from service.log.kafka.clients import create_group_consumer
from service.log.kafka.library_fixes.groups.assignor import SortedRangeAssignor
from service.log.kafka.library_fixes.groups.group_join import continue_join
from service.log.kafka.library_fixes.groups.paused_records import drop_paused_records
from service.log.kafka.worker.rebalance_listener import RebalanceEvent, RebalanceListener, get_partition_numbers
from service.log.protocol import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka import ConsumerGroupMetadata, KafkaConsumer
    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

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
DAMAGE_LOG_INTERVAL_S = 60.0
LEADERS_TIMEOUT_S = 1.0
LEADERS_RETRY_INTERVAL_S = 5.0
NO_OTHER_WORKER = "no other worker can take over"


class OffsetLostError(Exception):
    """The position of a partition is lost. Every partition must be restored."""


class GroupConsumer:
    """The consumer of the input topic. One thread uses it. After an error it creates a new client."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        *,
        group: str,
        worker_id: str | None,
        identity: str | None = None,
        assignor: type[AbstractPartitionAssignor] = SortedRangeAssignor,
    ) -> None:
        """`identity`: by which other workers recognize this one; the worker id if it has one."""
        self._settings = settings
        self._assignor = assignor
        self._topic = topic
        self._group = group
        self._worker_id = worker_id
        self._identity = identity
        self._consumer: KafkaConsumer | None = None
        self._events: deque[RebalanceEvent] = deque()
        self._last_member_id: str | None = None  # of the last stable generation
        self._polled_at = time.monotonic()
        self._leaders_due_at = 0.0
        self._damage_logged_at: dict[str, float] = {}  # by the text
        self.absent = False  # it has left the group, until `rejoin`
        self.warning = ""

    @property
    def rebalance_pending(self) -> bool:
        return bool(self._events)

    def drain_rebalances(self) -> list[RebalanceEvent]:
        return [self._events.popleft() for _ in range(len(self._events))]

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll(self, *, max_records: int, timeout: float) -> Mapping[int, Sequence[ConsumerRecord]]:
        """Returns messages by partition. Raises `OffsetLostError`, `FencedError`, or `StreamError` if a retry can't help."""
        if self.absent or not self._owns_identity():
            time.sleep(min(timeout, RETRY_INTERVAL_S))
            return {}
        try:
            polled = self._poll_until_joined(self._ensure_consumer(), max_records, timeout)
        except FencedInstanceIdError as error:
            raise FencedError(self._describe_fencing()) from error
        except OFFSET_LOST_ERRORS as error:
            raise OffsetLostError(repr(error)) from error
        except FATAL_ERRORS as error:
            self._discard_consumer(error)
            advice = "; install kafka-python[lz4,snappy,zstd]" if isinstance(error, UnsupportedCodecError) else ""
            raise StreamError(f"{self._topic} can't be read: {describe_error(error)}{advice}") from error
        except (StreamError, *CLIENT_ERRORS) as error:
            if isinstance(error, CorruptRecordError):
                self._report_damage(error)
                self._close_and_revoke()
            else:
                self._discard_consumer(error)
            time.sleep(min(timeout, RETRY_INTERVAL_S))
            return {}
        self.warning = ""
        return {partition.partition: messages for partition, messages in polled.items()}

    def _poll_until_joined(
        self, consumer: KafkaConsumer, max_records: int, timeout: float
    ) -> Mapping[TopicPartition, Sequence[ConsumerRecord]]:
        """Polls again while the group rebalances: the client joins only inside a poll."""
        deadline = time.monotonic() + max(timeout, JOIN_TIMEOUT_S)
        while True:
            try:
                polled = consumer.poll(timeout_ms=int(timeout * 1000), max_records=max_records)
            finally:
                self._update_identity()
            if polled or self._events or not continue_join(consumer) or time.monotonic() > deadline:
                return cast("Mapping[TopicPartition, Sequence[ConsumerRecord]]", polled)
            timeout = JOIN_POLL_TIMEOUT_S

    def _ensure_consumer(self) -> KafkaConsumer:
        if self._consumer is None:
            consumer = create_group_consumer(
                self._settings,
                group=self._group,
                worker_id=self._worker_id,
                identity=self._identity,
                assignor=self._assignor,
            )
            try:
                self._subscribe(consumer)
            except BaseException:
                consumer.close(autocommit=False, timeout_ms=0)
                raise
            self._consumer = consumer
        return self._consumer

    def _subscribe(self, consumer: KafkaConsumer) -> None:
        consumer.subscribe([self._topic], listener=RebalanceListener(consumer, self._events))
        # A leader that joins before it knows the partitions assigns none, and the group has to rebalance again.
        if not consumer.partitions_for_topic(self._topic):
            raise StreamError(describe_missing_topic(self._topic))

    def _discard_consumer(self, error: Exception) -> None:
        """The next poll joins again. All partitions are revoked until then."""
        self._warn(f"{self._topic} can't be read, retrying with a new consumer: {describe_error(error)}")
        self._close_and_revoke()

    def _report_damage(self, error: CorruptRecordError) -> None:
        """Logs once a minute which batch has a wrong checksum. The client's text names its partition and offset.

        It is not skipped: another replica may have it intact, and lead the partition later. Polls between attempts succeed.
        """
        self.warning = (
            f"a record batch of {self._topic} is damaged, and its partition stands still until a broker has it intact:"
            f" {describe_error(error)}"
        )
        now = time.monotonic()
        if now - self._damage_logged_at.get(self.warning, float("-inf")) >= DAMAGE_LOG_INTERVAL_S:
            self._damage_logged_at[self.warning] = now
            logger.error("%s", self.warning)

    def _close_and_revoke(self) -> None:
        if self._consumer is not None:
            revoked = get_partition_numbers(self._consumer.assignment())
            self.close()
            self._last_member_id = None
            self._events.append(RebalanceEvent("revoked", revoked))

    # -- absence ---------------------------------------------------------------------------------------------------

    def leave(self, reason: str, *, members_before: int = 0) -> str:
        """Leaves the group. Returns why it stays instead; empty if it left.

        `members_before`: how many workers were in the group when the reason appeared; 0 if that is not known. If one of them
        has left since, perhaps for the same reason, this one stays: otherwise all would leave, one after another.
        Raises StreamError if the group does not answer.
        """
        if self.absent or self._consumer is None:
            return ""
        members = self._count_members()
        if members <= 1:
            return NO_OTHER_WORKER
        if members < members_before:
            return "another worker has left before"
        self._warn(f"{reason}: the partitions are left to other workers")
        self.absent = True
        self._close_and_revoke()
        if self._worker_id is not None:
            remove_group_member(self._settings, group=self._group, worker_id=self._worker_id)
        if not self._count_members():  # the others have left at the same moment
            self.rejoin()
            return NO_OTHER_WORKER
        return ""

    def _count_members(self) -> int:
        return len(list_group_identities(self._settings, group=self._group))

    def rejoin(self) -> None:
        """Joins again with the next poll."""
        if self.absent:
            logger.info("the worker joins its group again")
        self.absent, self.warning = False, ""

    def _warn(self, warning: str) -> None:
        if warning != self.warning:
            logger.warning("%s", warning)
        self.warning = warning

    def group_metadata(self) -> ConsumerGroupMetadata | None:
        """The worker's generation and member id at this moment."""
        return None if self._consumer is None else self._consumer.group_metadata()

    # A partition may be revoked at any moment. These calls then do nothing: the queued event handles it.

    def highwater(self, partition: int) -> int | None:
        return self._try_call(lambda consumer, topic_partition: consumer.highwater(topic_partition), partition)

    def end_offset(self, partition: int, *, timeout_ms: int) -> int | None:
        """The end of the partition, asked of the broker."""
        return self._try_call(
            lambda consumer, topic_partition: consumer.end_offsets([topic_partition], timeout_ms=timeout_ms).get(
                topic_partition
            ),
            partition,
        )

    def committed(self, partition: int, *, timeout_ms: int) -> int | None:
        return self._try_call(
            lambda consumer, topic_partition: consumer.committed(topic_partition, timeout_ms=timeout_ms), partition
        )

    def refresh_leaders(self) -> None:
        """Asks who leads the partitions, and waits for the answer.

        Without it, a partition that is resumed is fetched from the leader that the client knows. If that one hangs and another
        leads by now, the client learns it only when the fetch times out: 3.7 of 16.4 s without progress.

        After a request that nobody answered it does not wait again for a while: no partition is read while it waits, and
        partitions may be restored one by one. The client itself keeps asking.
        """
        if self._consumer is None or time.monotonic() < self._leaders_due_at:
            return
        answered = Event()
        self._consumer._cluster.request_update().add_both(lambda _: answered.set())  # noqa: SLF001 - there is no public way
        if not answered.wait(LEADERS_TIMEOUT_S):
            self._leaders_due_at = time.monotonic() + LEADERS_RETRY_INTERVAL_S

    def pause(self, partition: int) -> None:
        self._try_call(lambda consumer, topic_partition: consumer.pause(topic_partition), partition)

    def resume_from(self, partition: int, offset: int) -> None:
        self.seek(partition, offset)
        self._try_call(drop_paused_records, partition)
        self._try_call(lambda consumer, topic_partition: consumer.resume(topic_partition), partition)

    def seek(self, partition: int, offset: int) -> None:
        self._try_call(lambda consumer, topic_partition: consumer.seek(topic_partition, offset), partition)

    def _try_call(self, call: Callable[[KafkaConsumer, TopicPartition], int | None], partition: int) -> int | None:
        if self._consumer is None:
            return None
        try:
            return call(self._consumer, TopicPartition(self._topic, partition))
        except CLIENT_ERRORS:
            return None

    # -- identity --------------------------------------------------------------------------------------------------

    def _update_identity(self) -> None:
        metadata = self.group_metadata()
        if metadata is not None and metadata.state == MemberState.STABLE and metadata.member_id:
            self._last_member_id = metadata.member_id
        elif metadata is not None and metadata.state == MemberState.REBALANCING:
            self._last_member_id = None  # the join will bring a new one
        self._polled_at = time.monotonic()

    def _owns_identity(self) -> bool:
        """Whether the worker may poll. False while the group can't be asked.

        A worker that was suspended must not join again if another process has taken its identity. Raises `FencedError` then.
        """
        if self._worker_id is None or self._last_member_id is None:
            return True
        if time.monotonic() - self._polled_at < self._settings.session_timeout_ms / 1000:
            return True
        try:
            holder = self._find_identity_holder()
        except StreamError as error:
            self._warn(f"can't find out which process has the worker id {self._worker_id}: {error}")
            return False
        if holder not in (None, self._last_member_id):
            raise FencedError(self._describe_fencing())
        return True

    def can_claim_id(self) -> bool:
        """Whether the worker may use its transactional id, which belongs to the holder of the worker id."""
        if self._worker_id is None:
            return True
        metadata = self.group_metadata()
        if metadata is None or metadata.state != MemberState.STABLE or not metadata.member_id:
            return False
        holder = self._find_identity_holder()
        if holder not in (None, metadata.member_id):
            raise FencedError(self._describe_fencing())
        return holder is not None

    def _find_identity_holder(self) -> str | None:
        if self._worker_id is None:
            return None
        return find_member_id(self._settings, group=self._group, worker_id=self._worker_id)

    def _describe_fencing(self) -> str:
        return f"another process uses the worker id {self._worker_id} in the group {self._group}: every worker needs its own id"

    def close(self) -> None:
        """A worker with an id stays a member, so that a restart causes no rebalance. A worker without one leaves at once."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(*CLIENT_ERRORS):
                consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)
