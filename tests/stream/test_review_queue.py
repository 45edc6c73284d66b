"""The review queue over a real broker equals that over the embedded log, to the bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from service.contracts import Claim
from service.log.sqlite.log import SqliteLog
from service.review.messages import build_claim_message
from service.review.queue.queue import ReviewQueue
from tests.stream.steps import wait_until
from tests.support.review_queue import (
    QueueHarness,
    dump_queue,
    dump_rebuilt_queue,
    make_assessment,
    make_decision_output,
    make_history,
    make_review_output,
    minutes_after_now,
)

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.kafka.log import KafkaLog
    from service.log.topics import Topics


def test_two_replicas_over_kafka_and_the_embedded_log_show_the_same(
    kafka_log: KafkaLog, kafka_topics: Topics, tmp_path: Path
) -> None:
    outputs = make_history(kafka_topics, sentences=70)
    embedded = SqliteLog(tmp_path / "log.sqlite", kafka_topics)
    embedded.append(outputs)
    expected = dump_rebuilt_queue(embedded, kafka_topics)
    assert '"ranker":{' in str(expected["overview"])

    live = QueueHarness(kafka_log, ReviewQueue(tmp_path / "live.sqlite"), kafka_topics)
    for start in range(0, len(outputs), 30):
        live.write(*outputs[start : start + 30])
    wait_until(
        lambda: live.projector.step() == 0 and dump_queue(live.queue) == expected, "the live replica shows the same"
    )
    assert dump_rebuilt_queue(kafka_log, kafka_topics) == expected

    # A replica that has caught up receives later records, and a file that was deleted is built again.
    last = make_decision_output("s1", "error", topics=kafka_topics)
    embedded.append([last])
    kafka_log.append([last])
    expected = dump_rebuilt_queue(embedded, kafka_topics)
    wait_until(lambda: live.projector.step() == 0 and dump_queue(live.queue) == expected, "the decision has arrived")
    live.queue.file.path.unlink()
    live.catch_up()
    assert dump_queue(live.queue) == expected

    # A compacted topic does not end with an older revision that arrives late. Of two claims the first has the item.
    for number, reason in ((1, "flagged"), (3, "update"), (2, "flagged")):
        live.write(
            make_review_output(
                make_assessment("late", reason=reason, revision=number, update=reason == "update"), kafka_topics
            )
        )
    live.write(
        *(
            build_claim_message(kafka_topics, Claim(id="s1", reviewer=name, until=minutes_after_now(minutes)))
            for name, minutes in (("bob", 20), ("ann", 10))
        )
    )
    follower = kafka_log.follow(kafka_topics.review)
    revisions: list[int] = []

    def ends_with_the_newest() -> bool:
        live.projector.step()
        records = [record for record in follower.poll() if record.key == b"default/late"]
        revisions.extend(json.loads(record.value or b"")["revision"] for record in records)
        return revisions == [1, 3, 2, 3]

    wait_until(ends_with_the_newest, "the newer revision is written again")
    wait_until(
        lambda: live.projector.step() == 0 and live.get_item("s1").claimed_by == "bob", "the first claim has the item"
    )
    assert (live.get_item("late").state, live.get_item("late").revision) == ("closed", 3)
    assert dump_rebuilt_queue(kafka_log, kafka_topics) == dump_queue(live.queue)
    follower.close()
    live.close()
    embedded.close()
