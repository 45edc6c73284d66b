"""Structured logs: one line per event, as JSON or as text, with the request id and without secrets."""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

from service.telemetry.stderr_handler import StderrHandler

if TYPE_CHECKING:
    from collections.abc import Iterable

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

MASK = "****"
current_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request, for every line that is logged meanwhile."""

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
    """Masks the given secrets, and everything that looks like one."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    for pattern, replacement in _SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return text


class _MaskingFormatter(logging.Formatter):
    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        # Shorter ones would mask parts of ordinary words. Longest first, because one may contain another.
        long_enough = {secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH}
        self._secrets = sorted(long_enough, key=len, reverse=True)

    def _mask(self, text: str) -> str:
        return mask(text, self._secrets)

    def _format_message(self, record: logging.LogRecord) -> str:
        return self._mask(record.getMessage())

    def _format_traceback(self, record: logging.LogRecord) -> str:
        if not record.exc_info or record.exc_info[0] is None:
            return ""
        return self._mask(self.formatException(record.exc_info))

    def _collect_extra(self, record: logging.LogRecord) -> dict[str, object]:
        """The fields that the caller gave as `extra`, and the request id."""
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        request_id = current_request_id.get()
        if request_id is not None:
            extra.setdefault("request_id", request_id)
        return {
            name: value if isinstance(value, bool | int | float) else self._mask(str(value))
            for name, value in extra.items()
        }


class JsonFormatter(_MaskingFormatter):
    """One JSON object per line."""

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
    """For people: time, level, logger, message, then the extra fields. Line breaks in a message are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        timestamp = datetime.fromtimestamp(record.created).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        extra = "".join(f" {name}={value}" for name, value in self._collect_extra(record).items())
        message = self._format_message(record).replace("\r", "\\r").replace("\n", "\\n")
        line = f"{timestamp},{int(record.msecs):03d} {record.levelname} {record.name}: {message}{extra}"
        trace = self._format_traceback(record)
        return f"{line}\n{trace}" if trace else line


def configure_logging(
    format: LogFormat = "console",  # noqa: A002 - the name of the setting
    level: LogLevel = "info",
    *,
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Logs to standard error. A second call replaces the handler of the first, and no other handler.

    `secrets`: values to mask in every line, such as passwords from the settings.
    """
    root = logging.getLogger()
    handler: logging.Handler = StderrHandler() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(secrets) if format == "json" else ConsoleFormatter(secrets))
    handler.set_name("labelwatch")
    for previous in [handler for handler in root.handlers if handler.get_name() == "labelwatch"]:
        root.removeHandler(previous)
    root.addHandler(handler)
    logging.getLogger("service").setLevel(level.upper())
    logging.getLogger("kafka").setLevel(logging.WARNING)
    # It warns whenever its loop is 0.1 s late, as happens on any busy machine.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
