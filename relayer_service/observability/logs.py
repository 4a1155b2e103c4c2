"""The form of log lines, and the redaction of secrets in them."""

import base64
import json
import logging
import math
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson
from django.conf import settings

# No format shows where in the code a line was written, and without that lookup a line costs a third less.
logging._srcfile = None
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False

# The id of the request or task in progress.
request_id: ContextVar[str] = ContextVar("request_id", default="-")

REDACTED = "***"
# Names of secret things. Callers choose much of what is logged, and must not be able to choose how long that takes: in
# these patterns every repetition is bounded, or what it reads is read by no later attempt to match.
SECRET_NAME = re.compile(
    r"(?i:pass(?:word|wd|phrase)|secret|mnemonic|pepper|credential|authorization|cookie"
    r"|(?:signing|private|api|access|encryption)[_-]?key|(?:access|refresh|auth|session|csrf|middleware)[_-]?token)"
)
VALUE = (
    r"(?:\\++\"[^\"\\]*+(?:\\++\"|\Z)"  # quoted inside a string
    r"|b?\"(?:\\.|[^\"\\])*+\"?|b?'(?:\\.|[^'\\])*+'?"
    # To the closing brace, the next opening one or the end.
    r"|\{(?:\"(?:\\.|[^\"\\])*+\"?|'(?:\\.|[^'\\])*+'?|[^{}\"'])*+\}?"
    r"|[^\s,;&}\])]++)"
)
SECRET_SHAPES = [
    # Access tokens: the public part stays readable, so that a line can be traced to its token.
    (re.compile(r"(rms_[0-9A-Za-z]{12}_)[0-9A-Za-z]+"), r"\1" + REDACTED),
    (re.compile(r"(?i)\b((?:cookie|authorization)\s{0,9}:\s{0,9})(?![\s\"'])[^\n\"']++"), r"\1" + REDACTED),
    (re.compile(r"(?i)\b(bearer\s{1,9})(?!rms_[0-9A-Za-z]{12}_\*)[^\s'\",;]{8,}"), r"\1" + REDACTED),
    (
        re.compile(r"\b((?i:basic|token)\s{1,9})(?!rms_[0-9A-Za-z]{12}_\*)(?=\S{0,200}[0-9A-Z=])[^\s'\",;]{8,}"),
        r"\1" + REDACTED,
    ),
    (re.compile(r"\bwhsec_[0-9A-Za-z+/=_-]+"), REDACTED),
    # Tried only where a word begins, which may have something else in front of the JWT.
    (
        re.compile(r"(?<![\w-])((?:(?!\beyJ)[\w-])*+)eyJ[\w-]{8,}+\.[\w-]++\.[\w-]*+"),
        r"\1" + REDACTED,
    ),
    # Private keys look like hashes: both go.
    (re.compile(r"(?<![0-9a-fA-F])(?:0x)?[0-9a-fA-F]{64,}+"), REDACTED),
    (
        re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(-----END [A-Z ]{0,30}PRIVATE KEY-----|$)", re.S),
        REDACTED,
    ),
    # A value named for what it is, in JSON, repr, query strings and settings alike.
    (
        re.compile(rf"({SECRET_NAME.pattern}[\w.-]{{0,40}}\\{{0,9}}[\"']?\s{{0,9}}[=:]\s{{0,9}}){VALUE}"),
        r"\1" + REDACTED,
    ),
    (
        re.compile(rf"(\(b?[\"'][\w.-]{{0,40}}{SECRET_NAME.pattern}[\w.-]{{0,40}}[\"'],\s?){VALUE}"),
        r"\1" + REDACTED,
    ),
    # User info, and the path or query where RPC providers put their keys.
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)(?:[^/?#\s'\"@]*+@)++"), r"\1" + REDACTED + "@"),
    (re.compile(r"(://[^\s'\"]{0,200}?[/=])[0-9A-Za-z_-]{24,}"), r"\1" + REDACTED),
    # Webhooks have theirs there too, of any form: of an address elsewhere only the host stays.
    (
        re.compile(
            r"(?i)\b(https?://(?!(?:127(?:\.\d{1,3}){3}|localhost|\[::1\])[:/?#])[^/?#\s'\"\\]{1,300}+)[/?#][^\s'\"\\]++"
        ),
        r"\1/" + REDACTED,
    ),
]
# A short text without any of these has no secret shape: most lines need no search.
MARKS = (
    *("rms_", "bearer", "basic", "token", "whsec_", "eyj", "-----begin", "://", "key"),
    *("pass", "secret", "mnemonic", "pepper", "credential", "authorization", "cookie"),
)
MIN_HEX_KEY_LENGTH = 64
# A longer text is cut before it is searched. At the end of what is left a secret may be too short to be recognised, so
# that much more is searched than is kept.
MAX_LENGTH = 32_768
CUT_MARGIN = 1_024
CUT = "… (cut)"
# Loggers that never go below INFO. Django's logs the whole context for each variable that a template does not find,
# hundreds a page. Those of AWS log whole requests and answers, with fetched credentials, and urllib3 the paths under
# which containers fetch theirs.
NEVER_AT_DEBUG = ("boto3", "botocore", "django.template", "urllib3")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MIN_OWN_SECRET_LENGTH = 8
# Short texts that were searched and hold no secret: names of fields, methods and paths come again and again.
_harmless: set[str] = set()
MAX_REMEMBERED = 2_000
MAX_REMEMBERED_LENGTH = 64


def redact(text: str, max_length: int = MAX_LENGTH) -> str:
    """Return a text without its secrets, cut to about this length."""
    if text in _harmless:
        return text
    redacted = _redact(text, max_length)
    if redacted == text and len(text) <= MAX_REMEMBERED_LENGTH:
        if len(_harmless) >= MAX_REMEMBERED:
            _harmless.clear()
        _harmless.add(text)
    return redacted


def _redact(text: str, max_length: int) -> str:
    for secret in _own_secrets() if settings.configured else ():
        text = text.replace(secret, REDACTED)
    if len(text) > max_length + CUT_MARGIN:
        return _redact_shapes(text[: max_length + CUT_MARGIN])[:-CUT_MARGIN] + CUT
    return _redact_shapes(text)


def _redact_shapes(text: str) -> str:
    lowered = text.lower()
    if len(text) < MIN_HEX_KEY_LENGTH and not any(mark in lowered for mark in MARKS):
        return text
    for shape, replacement in SECRET_SHAPES:
        text = shape.sub(replacement, text)
    return text


@cache
def _own_secrets() -> tuple[str, ...]:
    """Return the secrets of this service's own settings, in the forms in which they could be logged."""
    keys = [*settings.ENCRYPTION_KEYS.values(), *settings.TOKEN_PEPPERS.values()]
    forms = [settings.SECRET_KEY, str(settings.DATABASES["default"].get("PASSWORD", ""))]
    for key in keys:
        forms += [base64.b64encode(key).decode(), repr(key)[2:-1]]
    return tuple(form for form in forms if len(form) >= MIN_OWN_SECRET_LENGTH)


def redact_value(value: Any) -> Any:
    """Return a value as JSON can hold it, with its secrets redacted."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {
            redact(str(name)): REDACTED if SECRET_NAME.search(str(name)) else redact_value(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [redact_value(item) for item in value]
    return redact(str(value))


class SecretFilter(logging.Filter):
    """Put the finished message, fields and traceback through `redact` before any handler sees them.

    `extra={"redacted": True}` is for a line that is made of redacted parts.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        if getattr(record, "redacted", False):
            return True
        try:
            message = record.getMessage()
        except Exception:
            # An error raised here would end the request.
            message = f"{record.msg} (logged with arguments that do not fit: {record.args})"
        record.msg, record.args = redact(message), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        if record.stack_info:
            record.stack_info = redact(record.stack_info)
        if fields := getattr(record, "fields", None):
            record.fields = redact_value(fields)
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
        }
        for name, value in getattr(record, "fields", {}).items():
            line.setdefault(name, value)
        if record.exc_text:
            line["traceback"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        try:
            return orjson.dumps(line).decode()
        except TypeError:
            # Numbers of any length, and text that is not valid Unicode.
            return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """One readable line, whatever control characters a caller put into it; a traceback follows on its own lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(request_id)s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name is logging's
        return CONTROL_CHARACTERS.sub(lambda match: repr(match[0])[1:-1], super().formatMessage(record))


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
            # A traceback for each request whose Host is not allowed; the access line has its 400.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            # It warns of each attempt to connect; `storage/postgresql/outages.py` logs when an outage begins and ends.
            "psycopg.pool": {"level": "ERROR"},
            "huey": {"level": "WARNING" if level == "INFO" else level},
            **{name: {"level": "INFO" if level == "DEBUG" else level} for name in NEVER_AT_DEBUG},
        },
    }
