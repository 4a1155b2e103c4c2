"""How log lines look, and what never gets into them."""

import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import orjson

# The id of the request or task that this thread is working on.
request_id: ContextVar[str] = ContextVar("request_id", default="-")

REDACTED = "***"
SECRET_SHAPES = [
    # Access tokens: the public part stays readable, so that a line can be traced to its token.
    (re.compile(r"\b(rms_[0-9A-Za-z]{12}_)[0-9A-Za-z]+"), r"\1" + REDACTED),
    (re.compile(r"(?i)\b(bearer|basic|token)(\s+)[^\s'\",;]{8,}"), r"\1\2" + REDACTED),
    (re.compile(r"\bwhsec_[0-9A-Za-z+/=_-]+"), REDACTED),
    # Private keys look like hashes: both go.
    (re.compile(r"\b(0x)?[0-9a-fA-F]{64}\b"), REDACTED),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", re.S), REDACTED),
    # A value named for what it is, in JSON, repr, query strings and settings alike.
    (
        re.compile(
            r"(?i)(\b[\w.-]*(?:password|passwd|secret|signing_key|private_key|api_key|pepper|credential"
            r"|encryption_keys?|authorization|cookie)[\w.-]*[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&}\])]+)"
        ),
        r"\1" + REDACTED,
    ),
    # User info, and the path and query where RPC providers put their keys.
    (re.compile(r"\b([a-z][a-z0-9+.-]*://)[^/\s@'\"]+@"), r"\1" + REDACTED + "@"),
]


def redact(text: str) -> str:
    for shape, replacement in SECRET_SHAPES:
        text = shape.sub(replacement, text)
    return text


class SecretFilter(logging.Filter):
    """Put the finished message and traceback through `redact` before any handler sees them."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        record.request_id = request_id.get()
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line; `extra={"fields": {...}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_text:
            line["traceback"] = record.exc_text
        return orjson.dumps(line, default=str).decode()


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(request_id)s %(name)s: %(message)s", "%H:%M:%S")


def configuration(level: str, style: str) -> dict[str, Any]:
    formatter = JsonFormatter if style == "json" else TextFormatter
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"secrets": {"()": SecretFilter}},
        "formatters": {"line": {"()": formatter}},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "filters": ["secrets"], "formatter": "line"},
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django's own handlers would print lines that passed no filter.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # Warnings about 4xx answers repeat the request line.
            "django.request": {"level": "ERROR"},
            "huey": {"level": "WARNING" if level == "INFO" else level},
        },
    }
