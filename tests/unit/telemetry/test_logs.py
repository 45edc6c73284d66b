"""One line an event, with its request and without secrets."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import pytest

from service.telemetry.logs import MASK, configure_logging, current_request_id, mask

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger("service.somewhere")


@pytest.fixture(autouse=True)
def _left_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before, levels = list(root.handlers), {name: logging.getLogger(name).level for name in ("service", "kafka")}
    yield
    root.handlers[:] = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_json_lines_hold_message_extras_request_and_trace() -> None:
    out = io.StringIO()
    configure_logging("json", stream=out)
    token = current_request_id.set("r-1")
    try:
        logger.info("read %d\nrecords", 3, extra={"partition": 2, "dataset": "news"})
        try:
            raise ValueError("password=hunter2")  # noqa: TRY301 - a trace is wanted
        except ValueError:
            logger.exception("it failed")
    finally:
        current_request_id.reset(token)
    logger.warning("half a pair: \ud800")
    first, second, third = (json.loads(line) for line in out.getvalue().splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "info", "logger": "service.somewhere", "message": "read 3\nrecords",
        "partition": 2, "dataset": "news", "request_id": "r-1",
    }  # fmt: skip
    assert second["level"] == "error"
    assert "ValueError" in second["exception"]
    assert "hunter2" not in second["exception"]
    assert "request_id" not in third


def test_console_lines_stay_lines() -> None:
    out = io.StringIO()
    configure_logging("console", stream=out)
    logger.info("a name\nwith a break", extra={"dataset": "news"})
    assert out.getvalue().endswith("INFO service.somewhere: a name\\nwith a break dataset=news\n")


def test_configuring_again_replaces_only_its_own_handler() -> None:
    first, second, foreign = io.StringIO(), io.StringIO(), logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(foreign)
    configure_logging("json", stream=first)
    configure_logging("console", "warning", stream=second)
    logger.info("not said")
    logger.warning("said")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1
    assert foreign in logging.getLogger().handlers


def test_known_secrets_are_masked_everywhere() -> None:
    out = io.StringIO()
    configure_logging("json", secrets=["s3cr3t-part", "s3cr3t-part-longer", "abc", ""], stream=out)
    logger.info("url of %s", {"x": "s3cr3t-part-longer"}, extra={"sent": "to s3cr3t-part, abc"})
    event = json.loads(out.getvalue())
    assert event["message"] == f"url of {{'x': '{MASK}'}}"
    assert event["sent"] == f"to {MASK}, abc", "three letters would tear holes into words"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("sasl_plain_password='hunter2', x=1", f"sasl_plain_password={MASK}, x=1"),
        ('{"password": "hun ter2"}', f'{{"password": {MASK}}}'),
        ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {MASK}"),
        ("'authorization': 'Basic dXNlcjpwYXNz'", f"'authorization': 'Basic {MASK}'"),
        ("X-API-Key: lw_0123456789", f"X-API-Key: {MASK}"),
        ("client_secret=abc&next=1", f"client_secret={MASK}&next=1"),
        ("postgres://joe:hunter2@host/db", f"postgres://joe:{MASK}@host/db"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, safe: str) -> None:
    assert mask(text) == safe


@pytest.mark.parametrize(
    "text",
    [
        "tokens: ['a', 'b']",
        "token_score=self-confidence",
        "key: news/1",
        "http://host:8765/v1/score",
        "the basics of it",
    ],
)
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert mask(text) == text
