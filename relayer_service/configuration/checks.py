"""System checks: configuration errors are found at startup, not by the first request."""

import os
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connections

from relayer_service.configuration.environment import REMOVED

# The checks of what an operator configures. All others are about code, and load the pages and URLs of the service.
CONFIGURATION = "configuration"
OF_OPERATORS = [Tags.caches, Tags.database, Tags.files, Tags.security, CONFIGURATION]

GENERATE = (
    "Generate one with: python -c \"import base64, secrets; print('1:' + base64.b64encode(secrets.token_bytes(32))"
    '.decode())"'
)
MIN_SECRET_KEY_LENGTH = 50
# The minimum number of distinct characters or bytes: a random key has far more.
MIN_DIFFERENT = 8


def report(condition: object, number: str, text: str, hint: str) -> list[CheckMessage]:
    """Return an error or a warning, by the letter of its number, if the condition is true."""
    kind = Error if number.startswith("E") else Warning
    return [kind(text, hint=hint, id=f"relayer_service.{number}")] if condition else []


@register(Tags.security)
def check_secrets(**kwargs: Any) -> list[CheckMessage]:
    """Reject weak secrets; without a secret the settings do not even load."""
    is_weak = len(settings.SECRET_KEY) < MIN_SECRET_KEY_LENGTH or len(set(settings.SECRET_KEY)) < MIN_DIFFERENT
    text = f"SECRET_KEY is shorter than {MIN_SECRET_KEY_LENGTH} characters, or not random."
    hint = "`make run` creates one in DATA_DIR; otherwise set a long random string."
    messages = report(is_weak, "E001", text, hint)
    for name, number in (("ENCRYPTION_KEYS", "E002"), ("TOKEN_PEPPERS", "E003")):
        keys = getattr(settings, name)
        is_weak = not keys or any(len(set(key)) < MIN_DIFFERENT for key in keys.values())
        messages += report(is_weak, number, f"{name} has no key, or one that is not random.", GENERATE)
    return messages


@register(Tags.caches, deploy=True)
def check_shared_cache(**kwargs: Any) -> list[CheckMessage]:
    text = "WEB_PROCESSES is greater than 1 but REDIS_URL is not set: each process counts rate limits separately."
    has_several = settings.WEB_PROCESSES > 1 and not settings.REDIS_URL
    return report(has_several, "W001", text, "Set REDIS_URL, or run one process.")


@register(Tags.database, deploy=True)
def check_database(**kwargs: Any) -> list[CheckMessage]:
    on_sqlite = settings.PROFILE == "production" and "sqlite" in settings.DATABASES["default"]["ENGINE"]
    hint = "Set DATABASE_URL to a PostgreSQL database, or PROFILE=local."
    return report(on_sqlite, "W002", "PROFILE is production but the database is SQLite.", hint)


@register(Tags.security, deploy=True)
def check_hosts(**kwargs: Any) -> list[CheckMessage]:
    hint = "Set it to the host names of the service."
    return report("*" in settings.ALLOWED_HOSTS, "W003", "ALLOWED_HOSTS accepts every host name.", hint)


@register(CONFIGURATION)
def check_readiness_parts(**kwargs: Any) -> list[CheckMessage]:
    from relayer_service.health.views import PROBES

    unknown = sorted(set(settings.READY_REQUIRES) - PROBES.keys())
    text = f"READY_REQUIRES has unknown parts: {', '.join(unknown)}."
    return report(unknown, "E004", text, f"Use only: {', '.join(sorted(PROBES))}.")


@register(CONFIGURATION)
def check_removed_variables(**kwargs: Any) -> list[CheckMessage]:
    ignored = [name for name in REMOVED if name in os.environ]
    text = f"These environment variables have been removed and have no effect: {', '.join(ignored)}."
    return report(ignored, "W006", text, "Remove them from the environment or from .env.")


@register(Tags.files)
def check_secret_files(**kwargs: Any) -> list[CheckMessage]:
    """Find secrets that other users of the machine can read."""
    messages: list[CheckMessage] = []
    for name in ("secret_key", "encryption_keys", "token_peppers"):
        path = settings.DATA_DIR / name
        is_open = name.upper() not in os.environ and path.exists() and path.stat().st_mode & 0o077
        text = f"{name} in DATA_DIR can be read by other users."
        messages += report(is_open, "W004", text, f"Run chmod 600 on DATA_DIR/{name}.")
    return messages


@register(Tags.database)
def check_encryption_keys(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Find lost or changed keys. Needs the database: `check --database default`."""
    if not databases:
        return []
    from relayer_service.models import EncryptionKey

    try:
        problems = EncryptionKey.objects.problems()
    except DatabaseError:
        return []  # before the first migration
    hint = "Put the key back into ENCRYPTION_KEYS; after `manage.py rotate_keys` it is no longer needed."
    return [Error(problem, hint=hint, id="relayer_service.E005") for problem in problems]


@register(Tags.database)
def check_row_counts(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Find listed tables whose rows are not counted; a warning, as an error would stop `migrate`, which repairs it."""
    from relayer_service.storage import counting

    tables = [table for alias in databases or [] for table in counting.uncounted_tables(connections[alias])]
    hint = "Run `manage.py recount` to recreate it and repair the count."
    texts = [f"The rows of {table} are not counted: a trigger is missing." for table in tables]
    return [Warning(text, hint=hint, id="relayer_service.W005") for text in texts]
