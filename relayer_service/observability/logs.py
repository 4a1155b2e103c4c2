"""The format of log lines, and the redaction of secrets in them."""

import base64
import json
import logging
import math
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson
from django.conf import settings

from relayer_service.database.ttl_cache import TTLCache
from relayer_service.observability import tracing

# No format shows the source location, and without looking it up a line costs a third less.
logging._srcfile = None
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False

# The id of the request or task in progress.
request_id: ContextVar[str] = ContextVar("request_id", default="-")

REDACTED = "***"
# Names of secrets. Callers control much of what is logged, and must not be able to cause backtracking: in these
# patterns, every repetition is bounded or possessive.
SECRET_NAME = re.compile(
    r"(?i:pass(?:word|wd|phrase)|secret|mnemonic|pepper|credential|authorization|cookie"
    r"|(?:signing|private|api|access|encryption)[_-]?key|(?:access|refresh|auth|session|csrf|middleware)[_-]?token)"
)
VALUE = (
    r"(?:\\++\"[^\"\\]*+(?:\\++\"|\Z)"  # quoted inside a string
    r"|b?\"(?:\\.|[^\"\\])*+\"?|b?'(?:\\.|[^'\\])*+'?"
    # An object ends at the closing brace, the next opening one or the end.
    r"|\{(?:\"(?:\\.|[^\"\\])*+\"?|'(?:\\.|[^'\\])*+'?|[^{}\"'])*+\}?"
    r"|[^\s,;&}\])]++)"
)
# The replacement that keeps group 1.
KEPT = r"\1" + REDACTED
PATTERNS = [
    # Access tokens keep their public part, so that a line can be traced to its token.
    (r"(rms_[0-9A-Za-z]{12}_)[0-9A-Za-z]+", KEPT),
    (r"(?i)\b((?:cookie|authorization)\s{0,9}:\s{0,9})(?![\s\"'])[^\n\"']++", KEPT),
    (r"(?i)\b(bearer\s{1,9})(?!rms_[0-9A-Za-z]{12}_\*)[^\s'\",;]{8,}", KEPT),
    (r"\b((?i:basic|token)\s{1,9})(?!rms_[0-9A-Za-z]{12}_\*)(?=\S{0,200}[0-9A-Z=])[^\s'\",;]{8,}", KEPT),
    (r"\bwhsec_[0-9A-Za-z+/=_-]+", REDACTED),
    # JWTs. Matches only from the start of a word, which may have a prefix before the JWT.
    (r"(?<![\w-])((?:(?!\beyJ)[\w-])*+)eyJ[\w-]{8,}+\.[\w-]++\.[\w-]*+", KEPT),
    # Private keys look like hashes: both are redacted.
    (r"(?<![0-9a-fA-F])(?:0x)?[0-9a-fA-F]{64,}+", REDACTED),
    (r"(?s)-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(-----END [A-Z ]{0,30}PRIVATE KEY-----|$)", REDACTED),
    # Values after the name of a secret, in JSON, repr, query strings and settings.
    (rf"({SECRET_NAME.pattern}[\w.-]{{0,40}}\\{{0,9}}[\"']?\s{{0,9}}[=:]\s{{0,9}}){VALUE}", KEPT),
    (rf"(\(b?[\"'][\w.-]{{0,40}}{SECRET_NAME.pattern}[\w.-]{{0,40}}[\"'],\s?){VALUE}", KEPT),
    # User info, and the path or query in which RPC providers put their keys.
    (r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)(?:[^/?#\s'\"@]*+@)++", KEPT + "@"),
    (r"(://[^\s'\"]{0,200}?[/=])[0-9A-Za-z_-]{24,}", KEPT),
    # Webhook URLs contain keys of any format there: only the host of an external URL is kept.
    (
        r"(?i)\b(https?://(?!(?:127(?:\.\d{1,3}){3}|localhost|\[::1\])[:/?#])[^/?#\s'\"\\]{1,300}+)[/?#][^\s'\"\\]++",
        r"\1/" + REDACTED,
    ),
]
SECRET_SHAPES = [(re.compile(pattern), replacement) for pattern, replacement in PATTERNS]
# A short text without any of these matches no pattern, so most lines need no search.
MARKS = (
    *("rms_", "bearer", "basic", "token", "whsec_", "eyj", "-----begin", "://", "key"),
    *("pass", "secret", "mnemonic", "pepper", "credential", "authorization", "cookie"),
)
MIN_HEX_KEY_LENGTH = 64
# A longer text is cut before the search. A secret at the cut may be too short to be recognised, so this much more is
# searched than is kept.
MAX_LENGTH = 32_768
CUT_MARGIN = 1_024
CUT = "… (cut)"
# Loggers that stay at INFO. At DEBUG, Django logs the whole context for each missing template variable, boto logs
# requests and responses with credentials, and urllib3 the paths from which containers fetch credentials.
NEVER_AT_DEBUG = ("boto3", "botocore", "django.template", "urllib3")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MIN_OWN_SECRET_LENGTH = 8
# Numbers in a warning that do not tell kinds of failures apart, as statuses of HTTP and codes of JSON-RPC do.
COUNTS = re.compile(r"(?<!HTTP )(?<!\d)(?!(?<=-)32\d{3}\b)\d+")
# Cache of short texts without secrets, as names of fields, methods and paths recur.
_harmless: set[str] = set()
MAX_REMEMBERED = 2_000
MAX_REMEMBERED_LENGTH = 64


def redact(text: str, max_length: int = MAX_LENGTH) -> str:
    """Return a text with its secrets redacted, cut to about this length."""
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
    """Return the secrets of the service's settings, in the encodings in which they could be logged."""
    keys = [*settings.ENCRYPTION_KEYS.values(), *settings.TOKEN_PEPPERS.values()]
    forms = [settings.SECRET_KEY, str(settings.DATABASES["default"].get("PASSWORD", ""))]
    for key in keys:
        forms += [base64.b64encode(key).decode(), repr(key)[2:-1]]
    return tuple(form for form in forms if len(form) >= MIN_OWN_SECRET_LENGTH)


def redact_value(value: Any) -> Any:
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
    """Redacts the message, fields and traceback of lines without `extra={"redacted": True}`."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        record.trace_id = tracing.trace_id(tracing.traceparent.get())
        if getattr(record, "redacted", False):
            return True
        try:
            message = record.getMessage()
        except Exception:
            # An exception here would fail the request.
            message = f"{record.msg} (logged with arguments that do not match: {record.args})"
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


class RepeatedWarnings(logging.Filter):
    """Passes one warning a minute of a kind and about a subject, its first argument, with how many were left out."""

    SECONDS = 60.0
    # When the last line passed, and how many were left out since.
    _passed: TTLCache[tuple[str, str], tuple[float, int]] = TTLCache()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING or not isinstance(record.args, tuple):
            return True
        key, now = (str(record.args[:1]), COUNTS.sub("", record.getMessage())), time.monotonic()
        passed_at, left_out = self._passed.get(key) or (-math.inf, 0)
        is_passed = now - passed_at >= self.SECONDS
        self._passed.set(key, (now, 0) if is_passed else (passed_at, left_out + 1), 60 * self.SECONDS)
        if is_passed and left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out:,} more since the last line)", None
        return is_passed


class JsonFormatter(logging.Formatter):
    """One JSON object per line; `extra={"fields": {...}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": record.getMessage(),
        }
        if trace_id := getattr(record, "trace_id", ""):
            line["trace_id"] = trace_id
        for name, value in getattr(record, "fields", {}).items():
            line.setdefault(name, value)
        if record.exc_text:
            line["traceback"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        try:
            return orjson.dumps(line).decode()
        except TypeError:
            # Integers beyond 64 bits, and text that is not valid Unicode.
            return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """One readable line with control characters escaped, with fields if `fields_in_text`; a traceback follows."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(request_id)s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name is logging's
        fields = getattr(record, "fields", {}) if getattr(record, "fields_in_text", False) else {}
        more = "".join(f" {name}={value}" for name, value in fields.items() if value not in (None, ""))
        return CONTROL_CHARACTERS.sub(lambda match: repr(match[0])[1:-1], super().formatMessage(record) + more)


def configuration(level: str, style: str) -> dict[str, Any]:
    formatter = JsonFormatter if style == "json" else TextFormatter
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"secrets": {"()": SecretFilter}},
        "formatters": {"line": {"()": formatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["secrets"], "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django's handlers would bypass the filter.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # Warnings about 4xx responses repeat the access line.
            "django.request": {"level": "ERROR"},
            # Logs a traceback for each disallowed Host; the access line has the 400.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            # Warns of each attempt to connect; `database/postgresql/outages.py` logs the start and end of an outage.
            "psycopg.pool": {"level": "ERROR"},
            "huey": {"level": "WARNING" if level == "INFO" else level},
            **{name: {"level": "INFO" if level == "DEBUG" else level} for name in NEVER_AT_DEBUG},
        },
    }
