"""Typed environment variables: a bad value fails at startup with an error that names the variable."""

import base64
import binascii
import ipaddress
import os
import re
from collections.abc import Collection
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

# Variables that used to be settings and are ignored.
REMOVED = (
    *("BALANCE_RUNWAY_DAYS", "BODY_TIMEOUT_SECONDS", "CLIENT_TIMEOUT_SECONDS", "FEE_BASE_FEE_MARGIN_BPS"),
    *("FEE_GAS_BUFFER_BPS", "FEE_TIP_FLOOR_WEI", "HEALTH_FAILURES_TO_DISABLE", "HEALTH_SUCCESSES_TO_ENABLE"),
    *("HSTS_SECONDS", "NODE_ATTEMPT_SECONDS", "NODE_DEADLINE_SECONDS"),
    *("NODE_FAILURES_TO_PAUSE", "NODE_MAX_ANSWER_BYTES", "NODE_THREADS", "RESOLVER_THREADS", "RPC_CACHE_SECONDS"),
    *("SIGNING_THREADS", "TOKEN_CACHE_SECONDS"),
    *("WEBHOOK_DATABASE_THREADS", "WEBHOOK_JITTER_PERCENT", "WEBHOOK_KEY_OVERLAP_HOURS", "WEBHOOK_TARGETS"),
    *("WEBHOOK_TARGET_CONCURRENCY", "WEB_BACKLOG", "WEB_CONNECTIONS", "WEB_DRAIN_SECONDS"),
    *("WEB_PROCESS_LIFETIME_HOURS", "WEB_STOP_SECONDS", "WORKER_STOP_SECONDS"),
)
TRUE = {"true", "1", "yes", "on"}
FALSE = {"false", "0", "no", "off"}
# More than any setting needs; Python rejects integers of thousands of digits.
MAX_DIGITS = 18
KEY_ID = re.compile(r"[0-9A-Za-z]{1,16}")
KEY_BYTES = 32
# django-ratelimit's notation, except for rates that fail at the first request: no period, or a period of zero.
RATE = re.compile(r"[0-9]{1,9}/(?:[smhd]|[1-9][0-9]{0,5}[smhd]?)")
HOST_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def boolean(name: str, default: bool) -> bool:
    value = os.environ.get(name, str(default)).lower()
    if value not in TRUE | FALSE:
        raise ImproperlyConfigured(f"{name} must be true or false")
    return value in TRUE


def integer(name: str, default: int, minimum: int = 0, maximum: int | None = None) -> int:
    value = os.environ.get(name, str(default))
    if not _is_integer(value, maximum) or int(value) < minimum:
        limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ImproperlyConfigured(f"{name} must be an integer {limits}")
    return int(value)


def _is_integer(text: str, maximum: int | None) -> bool:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        return False
    return maximum is None or int(text) <= maximum


def integers(name: str, default: str, maximum: int) -> list[int]:
    """Return a comma-separated list of integers, at least one."""
    items = listing(name, default)
    if not items or not all(_is_integer(item, maximum) for item in items):
        raise ImproperlyConfigured(f"{name} must be a list of integers from 0 to {maximum}")
    return [int(item) for item in items]


def choice(name: str, default: str, allowed: set[str]) -> str:
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of: {', '.join(sorted(allowed))}")
    return value


def listing(name: str, default: str = "") -> list[str]:
    return [item for item in (part.strip() for part in os.environ.get(name, default).split(",")) if item]


def choices(name: str, default: str, allowed: Collection[str]) -> list[str]:
    """Return a comma-separated list of unique allowed names."""
    items = list(dict.fromkeys(listing(name, default)))
    for item in items:
        if item not in allowed:
            raise ImproperlyConfigured(f"{name}: {item} is unknown; choose from: {', '.join(allowed)}")
    return items


def networks(name: str, default: str = "") -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return a comma-separated list of addresses and CIDR networks."""
    try:
        return [ipaddress.ip_network(item) for item in listing(name, default)]
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a list of addresses or CIDR networks") from None


def host(name: str, default: str) -> str:
    """Return a host name or an address as in URLs: IPv6 in brackets, which the variable may omit."""
    value = os.environ.get(name, default)
    if HOST_NAME.fullmatch(value):
        return value
    address = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    try:
        return f"[{ipaddress.IPv6Address(address)}]"
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a host name or an address") from None


def rate(name: str, default: str) -> str:
    """Return a rate in django-ratelimit's notation (`100/s`, `5/10m`); empty means no limit."""
    value = os.environ.get(name, default)
    if value and not RATE.fullmatch(value):
        raise ImproperlyConfigured(f"{name} must be a rate such as 100/s or 5/10m, or empty")
    return value


def url(name: str, schemes: tuple[str, ...]) -> str:
    value = os.environ.get(name, "")
    if value and not value.startswith(schemes):
        raise ImproperlyConfigured(f"{name} must begin with {' or '.join(schemes)}")
    return value


def secret(name: str, data_dir: Path) -> str:
    """Return a secret from the environment, else from its file in DATA_DIR, which `make run` creates."""
    if name in os.environ:
        return os.environ[name]
    try:
        return (data_dir / name.lower()).read_text().strip()
    except FileNotFoundError:
        raise ImproperlyConfigured(
            f"{name} is missing: set it, or run `make run` once, which creates one in DATA_DIR"
        ) from None
    except OSError as error:
        raise ImproperlyConfigured(f"{name}: its file in DATA_DIR cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name}: its file in DATA_DIR is not text") from None


def keyring(name: str, data_dir: Path) -> dict[str, bytes]:
    """Return the keys of a secret `id:base64,id:base64`: the first is for new data, all are for existing data."""
    keys: dict[str, bytes] = {}
    for item in (part.strip() for part in secret(name, data_dir).split(",") if part.strip()):
        key_id, separator, encoded = item.partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not separator or not KEY_ID.fullmatch(key_id) or key_id in keys or len(key) != KEY_BYTES:
            raise ImproperlyConfigured(
                f"{name} must be a list of id:key pairs, each id unique and alphanumeric, each key 32 bytes in base64"
            )
        keys[key_id] = key
    return keys
