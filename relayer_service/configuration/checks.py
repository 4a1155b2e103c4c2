"""System checks: configuration errors are found at startup, not by the first request."""

import os
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connections

from relayer_service.configuration.environment import REMOVED

GENERATE = (
    "Generate one with: python -c \"import base64, secrets; print('1:' + base64.b64encode(secrets.token_bytes(32))"
    '.decode())"'
)
MIN_SECRET_KEY_LENGTH = 50
# The minimum of distinct characters or bytes in a key: a random one has far more.
MIN_DIFFERENT = 8


def warn(condition: object, text: str, hint: str, number: str) -> list[CheckMessage]:
    return [Warning(text, hint=hint, id=f"relayer_service.{number}")] if condition else []


@register(Tags.security)
def check_secrets(**kwargs: Any) -> list[CheckMessage]:
    """Reject weak secrets; without a secret the settings do not even load."""
    messages: list[CheckMessage] = []
    if len(settings.SECRET_KEY) < MIN_SECRET_KEY_LENGTH or len(set(settings.SECRET_KEY)) < MIN_DIFFERENT:
        messages.append(
            Error(
                f"SECRET_KEY is shorter than {MIN_SECRET_KEY_LENGTH} characters, or not random.",
                hint="`make run` creates one in DATA_DIR; otherwise set a long random string.",
                id="relayer_service.E001",
            )
        )
    for name, number in (("ENCRYPTION_KEYS", "E002"), ("TOKEN_PEPPERS", "E003")):
        keys = getattr(settings, name)
        if not keys or any(len(set(key)) < MIN_DIFFERENT for key in keys.values()):
            messages.append(
                Error(f"{name} has no key, or one that is not random.", hint=GENERATE, id=f"relayer_service.{number}")
            )
    return messages


@register(Tags.caches, deploy=True)
def check_shared_cache(**kwargs: Any) -> list[CheckMessage]:
    text = "There are several WEB_PROCESSES but no REDIS_URL: each process counts rate limits separately."
    has_several = settings.WEB_PROCESSES > 1 and not settings.REDIS_URL
    return warn(has_several, text, "Set REDIS_URL, or run one process.", "W001")


@register(Tags.database, deploy=True)
def check_database(**kwargs: Any) -> list[CheckMessage]:
    on_sqlite = settings.PROFILE == "production" and "sqlite" in settings.DATABASES["default"]["ENGINE"]
    hint = "Set DATABASE_URL to a PostgreSQL database, or PROFILE=local."
    return warn(on_sqlite, "A production profile runs on SQLite.", hint, "W002")


@register(Tags.security, deploy=True)
def check_hosts(**kwargs: Any) -> list[CheckMessage]:
    hint = "Set it to the host names of the service."
    return warn("*" in settings.ALLOWED_HOSTS, "ALLOWED_HOSTS accepts every host name.", hint, "W003")


@register()
def check_readiness_parts(**kwargs: Any) -> list[CheckMessage]:
    from relayer_service.observability.health import PROBES

    unknown = set(settings.READY_REQUIRES) - PROBES.keys()
    error = Error(
        f"READY_REQUIRES has unknown parts: {', '.join(sorted(unknown))}.",
        hint=f"The parts are: {', '.join(sorted(PROBES))}.",
        id="relayer_service.E004",
    )
    return [error] if unknown else []


@register()
def check_removed_variables(**kwargs: Any) -> list[CheckMessage]:
    ignored = [name for name in REMOVED if name in os.environ]
    text = f"Settings that no longer exist are set in the environment and ignored: {', '.join(ignored)}."
    return warn(ignored, text, "Remove them from the environment or from .env.", "W006")


@register(Tags.files)
def check_secret_files(**kwargs: Any) -> list[CheckMessage]:
    """Find secrets that other users of the machine can read."""
    messages: list[CheckMessage] = []
    for name in ("secret_key", "encryption_keys", "token_peppers"):
        path = settings.DATA_DIR / name
        is_open = name.upper() not in os.environ and path.exists() and path.stat().st_mode & 0o077
        text = f"{name} in DATA_DIR can be read by other users."
        messages += warn(is_open, text, f"chmod 600 DATA_DIR/{name}", "W004")
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
        # Before the first migration there is no table.
        return []
    hint = "Put the key back into ENCRYPTION_KEYS; after `manage.py rotate_keys` it is no longer needed."
    return [Error(problem, hint=hint, id="relayer_service.E005") for problem in problems]


@register(Tags.database)
def check_row_counts(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Find listed tables whose rows are not counted; a warning, as an error would stop `migrate`, which repairs it."""
    from relayer_service.storage import counting

    return [
        Warning(
            f"The rows of {table} are not counted: a trigger is missing.",
            hint="Run `manage.py recount` to recreate it and repair the count.",
            id="relayer_service.W005",
        )
        for alias in databases or []
        for table in counting.uncounted_tables(connections[alias])
    ]
