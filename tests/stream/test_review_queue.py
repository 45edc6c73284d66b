"""The review queue over a real broker is the one of the embedded log, to the bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from service.contracts import Claim
from service.log.sqlite.log import SqliteStream
from service.review.decisions import claim_output
from service.review.queue.queue import Queue
from tests.review_desk import Desk, assessment, decision, later, read_all, review, shown, story
from tests.stream.steps import until

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.topics import Topics
    from tests.stream.conftest import Open


def test_two_replicas_over_kafka_and_the_embedded_log_show_the_same(
    opened: Open, kafka_topics: Topics, tmp_path: Path
) -> None:
    outputs = story(kafka_topics, sentences=70)
    embedded = SqliteStream(tmp_path / "log.sqlite", kafka_topics, worker=False)
    embedded.append(outputs)
    expected = read_all(embedded, kafka_topics)
    assert '"ranker":{' in str(expected["overview"])

    stream = opened()
    live = Desk(stream, Queue(tmp_path / "live.sqlite"), kafka_topics)
    for start in range(0, len(outputs), 30):
        live.write(*outputs[start : start + 30])
    until(lambda: live.projector.step() == 0 and shown(live.queue) == expected, "the live replica shows the same")
    assert read_all(opened(), kafka_topics) == expected

    # What comes later reaches a replica that has caught up, and a file that was deleted is built again.
    last = decision("s1", "error", topics=kafka_topics)
    embedded.append([last])
    stream.append([last])
    expected = read_all(embedded, kafka_topics)
    until(lambda: live.projector.step() == 0 and shown(live.queue) == expected, "the decision has arrived")
    live.queue.path.unlink()
    live.read()
    assert shown(live.queue) == expected

    # An older revision that comes late is not what a compacted topic ends with; of two claims the first has the item.
    for number, reason in ((1, "flagged"), (3, "update"), (2, "flagged")):
        live.write(review(assessment("late", reason=reason, revision=number, update=reason == "update"), kafka_topics))
    live.write(
        *(
            claim_output(kafka_topics, Claim(id="s1", reviewer=name, until=later(minutes)))
            for name, minutes in (("bob", 20), ("ann", 10))
        )
    )
    follower = stream.follow(kafka_topics.review)
    found: list[int] = []

    def ends_with_the_newest() -> bool:
        live.projector.step()
        records = [record for record in follower.poll() if record.key == b"default/late"]
        found.extend(json.loads(record.value or b"")["revision"] for record in records)
        return found == [1, 3, 2, 3]

    until(ends_with_the_newest, "the newer revision is written again")
    until(lambda: live.projector.step() == 0 and live.item("s1").claimed_by == "bob", "who was first has it")
    assert (live.item("late").state, live.item("late").revision) == ("closed", 3)
    assert read_all(opened(), kafka_topics) == shown(live.queue)
    follower.close()
    live.close()
    embedded.close()
