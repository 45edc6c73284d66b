"""The review queue over a real broker is the one of the embedded log, to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.review.queue import Queue
from service.stream.sqlite import SqliteStream
from tests.review_desk import Desk, decision, read_all, shown, story
from tests.stream.steps import until

if TYPE_CHECKING:
    from pathlib import Path

    from service.stream.topics import Topics
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
    live.close()
    embedded.close()
