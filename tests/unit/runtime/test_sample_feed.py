from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.cli.main import build_command_line
from service.errors import InvalidInput
from service.runtime.open_log import build_topics, open_log
from service.runtime.sample_feed import SAMPLE_ANNOTATORS, SAMPLE_DATASET, FileFeed
from service.settings import read_settings
from tests.stream.steps import read_topic

if TYPE_CHECKING:
    from pathlib import Path

LINES = ['{"tokens": ["Oslo"], "labels": ["B-LOC"]}', "{broken", '{"tokens": ["Ivo", "ran"], "labels": ["B-PER", "O"]}']


OTHER_LINES = [
    '{"tokens": ["Oslo"], "labels": ["B-LOC"], "document": "a"}',
    '{"tokens": ["Ivo", "ran"], "labels": ["B-PER", "O"], "id": "own", "document": "a"}',
]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABELWATCH_LOG_PATH", str(tmp_path / "log.sqlite"))
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_the_sentences_of_a_file_arrive_as_if_annotated_now_and_the_thread_waits(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, stop = read_settings(), threading.Event()
    thread = threading.Thread(target=FileFeed(settings, str(file), 1000.0).run, args=(stop,), daemon=True)
    thread.start()
    topics = build_topics(settings)
    with closing(open_log(settings)) as stream:
        while len(found := read_topic(stream, topics.sentences)) < 2:
            assert thread.is_alive()
            stop.wait(0.01)
    sent = [json.loads(record.value or b"") for record in found]
    assert [sentence["tokens"] for sentence in sent] == [["Oslo"], ["Ivo", "ran"]]
    assert {sentence["dataset"] for sentence in sent} == {SAMPLE_DATASET}
    assert {sentence["annotator"] for sentence in sent} <= set(SAMPLE_ANNOTATORS)
    assert all(sentence["annotated_at"] for sentence in sent)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert "some.jsonl:2" in caplog.text


@pytest.mark.parametrize("lines", [LINES, OTHER_LINES], ids=["numbered", "documents"])
def test_a_second_start_sends_only_what_the_first_did_not(
    file: Path, lines: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    file.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("LABELWATCH_LOG_PATH", str(file.parent / ".labelwatch" / "log.sqlite"))
    settings, topics = read_settings(), build_topics(read_settings())

    def start() -> list[list[str]]:
        caplog.clear()
        stop = threading.Event()
        thread = threading.Thread(target=FileFeed(settings, str(file), 1000.0).run, args=(stop,), daemon=True)
        thread.start()
        while "are sent to" not in caplog.text and "was sent before" not in caplog.text:
            assert thread.is_alive()
            stop.wait(0.01)
        stop.set()
        thread.join(30)
        with closing(open_log(settings)) as stream:
            return [json.loads(record.value or b"")["tokens"] for record in read_topic(stream, topics.sentences)]

    both = [["Oslo"], ["Ivo", "ran"]]
    assert start() == both
    assert start() == both
    assert "was sent before: to start over, stop the service and remove" in caplog.text
    assert str(file.parent / ".labelwatch") in caplog.text
    file.write_text("\n".join([*lines, '{"tokens": ["more"], "labels": ["O"]}']), encoding="utf-8")
    assert start() == [*both, ["more"]]


def test_a_missing_file_is_reported_before_anything_starts(file: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.jsonl"):
        build_command_line()(["up", "--feed", str(file.with_name("none.jsonl"))])
