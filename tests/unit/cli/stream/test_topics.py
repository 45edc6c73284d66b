"""`labelwatch topics` on the embedded log."""

from __future__ import annotations

from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences

TOPICS = Topics()


def test_topics_of_the_embedded_log(harness: CommandHarness) -> None:
    assert "nothing to create" in harness.run("topics", "create").out
    assert "there is no log at" in harness.run("topics", "describe").err
    harness.run("send", harness.write_file(make_sentences(20)))
    described = harness.run("topics", "describe").out
    assert "continues at offset 0 of labelwatch.sentences, 20 behind the end" in described
    harness.run("worker", "--once")
    described = harness.run("topics", "describe").out
    rows = {line.split()[0]: line.split()[1:4] for line in described.splitlines()[1:-1]}
    assert rows[TOPICS.sentences] == ["20", "0", "20"]
    assert rows[TOPICS.review][0] == str(len(harness.read_assessments()))
    assert "continues at offset 20 of labelwatch.sentences, 0 behind the end" in described
