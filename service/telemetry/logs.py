"""Structured logs: one line an event, as JSON or for people, with the request it belongs to and no secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

MASK = "****"
current_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Of the request that is being answered, for every line that is logged meanwhile."""

MIN_SECRET_LENGTH = 4
_SECRET_PATTERNS = (
    # name=value and name: value, quoted or not, as in settings, headers and reprs
    (
        re.compile(
            r"(?i)((?:password|passwd|passphrase|secret|credentials?|api[-_ ]?keys?)[\"']?\s*[=:]\s*)"
            r"(\"[^\"]*\"|'[^']*'|[^\s,;&)}\]]+)"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)((?:authorization[\"']?\s*[=:]\s*[\"']?)?(?:bearer|basic)\s+)[\w.~+/=:-]+"), rf"\1{MASK}"),
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+@"), rf"\1{MASK}@"),
)
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without what looks like a secret, and without the given ones wherever they stand."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    for pattern, replacement in _SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return text


class _MaskingFormatter(logging.Formatter):
    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        # Shorter ones would tear holes into ordinary words; longest first, where one is part of another.
        self._secrets = sorted({one for one in secrets if len(one) >= MIN_SECRET_LENGTH}, key=len, reverse=True)

    def _mask(self, text: str) -> str:
        return mask(text, self._secrets)

    def _format_message(self, record: logging.LogRecord) -> str:
        return self._mask(record.getMessage())

    def _format_traceback(self, record: logging.LogRecord) -> str:
        if not record.exc_info or record.exc_info[0] is None:
            return ""
        return self._mask(self.formatException(record.exc_info))

    def _collect_extra(self, record: logging.LogRecord) -> dict[str, object]:
        """What the caller gave as `extra`, and the request."""
        found = {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        current = current_request_id.get()
        if current is not None:
            found.setdefault("request_id", current)
        return {
            name: value if isinstance(value, bool | int | float) else self._mask(str(value))
            for name, value in found.items()
        }


class JsonFormatter(_MaskingFormatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._format_message(record),
            **self._collect_extra(record),
        }
        trace = self._format_traceback(record)
        if trace:
            event["exception"] = trace
        return json.dumps(event, ensure_ascii=False, default=str).encode(errors="replace").decode()


class ConsoleFormatter(_MaskingFormatter):
    """For people: time, level, logger, message, then what else is known. A message stays on its line."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        extra = "".join(f" {name}={value}" for name, value in self._collect_extra(record).items())
        message = self._format_message(record).replace("\r", "\\r").replace("\n", "\\n")
        line = f"{when},{int(record.msecs):03d} {record.levelname} {record.name}: {message}{extra}"
        trace = self._format_traceback(record)
        return f"{line}\n{trace}" if trace else line


class _StderrHandler(logging.Handler):
    """To standard error as it is at that moment: whoever called us may put another in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads it any more; the work goes on
            return


def configure_logging(
    format: LogFormat = "console",  # noqa: A002 - as the setting is called
    level: LogLevel = "info",
    *,
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Messages on standard error. Called again it replaces what it set up before, and nobody else's handlers.

    `secrets`: values that must not stand in any line, such as passwords from the settings.
    """
    root = logging.getLogger()
    handler: logging.Handler = _StderrHandler() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(secrets) if format == "json" else ConsoleFormatter(secrets))
    handler.set_name("labelwatch")
    for old in [one for one in root.handlers if one.get_name() == "labelwatch"]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger("service").setLevel(level.upper())
    logging.getLogger("kafka").setLevel(logging.WARNING)
    # It warns of each tenth of a second that its own loop was late, as on any busy machine.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
