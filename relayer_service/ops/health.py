"""The pages that monitoring reads: /health, /ready and /metrics."""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import cache as cached
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.views import APIView

from relayer_service.models import EncryptionKey, PeriodicRun
from relayer_service.net import client_address
from relayer_service.ops import metrics
from relayer_service.ops.tasks import HEARTBEAT, HEARTBEAT_SECONDS

logger = logging.getLogger(__name__)


@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200: this process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Return which of the parts that answers depend on work, by name only."""
    parts = {name: "ok" if works(name, probe) else "failed" for name, probe in PROBES.items()}
    failed = [name for name, state in parts.items() if state == "failed" and name in settings.READY_REQUIRES]
    status = HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK
    body: dict[str, Any] = {"status": "not ready" if failed else "ready", "parts": parts}
    if parts["cache"] == "failed":
        body["notes"] = ["rate limits are not enforced"]
    return JsonResponse(body, status=status)


def works(name: str, probe: Callable[[], bool]) -> bool:
    try:
        return probe()
    except Exception:
        logger.exception("The readiness probe of %s failed", name)
        return False


def database_answers() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return bool(cursor.fetchone() == (1,))


def cache_answers() -> bool:
    ping = getattr(cache, "ping", None)
    return bool(ping()) if ping else True


def migrations_are_applied() -> bool:
    applied = MigrationRecorder(connection).migration_qs.values_list("app", "name")
    return all_migrations() <= set(applied)


@cached
def all_migrations() -> frozenset[tuple[str, str]]:
    """Return the migrations of all apps: slow to load, and the same for as long as the process runs."""
    return frozenset(MigrationLoader(None).graph.nodes)


def worker_beats() -> bool:
    """Return whether a worker takes tasks and can write: the heartbeat needs the queue and the disk."""
    oldest = timezone.now() - timedelta(seconds=4 * HEARTBEAT_SECONDS)
    return PeriodicRun.objects.filter(name=HEARTBEAT, finished_at__gte=oldest).exists()


def encryption_keys_fit() -> bool:
    """Return whether every key that was used for encryption is configured, with the same value."""
    problems = EncryptionKey.objects.problems()
    for problem in problems:
        logger.error("%s", problem)
    return not problems


def peppers_fit() -> bool:
    """Return whether a configured pepper verifies each token that is in use, as far as can be known."""
    problem = import_string(settings.PEPPER_PROBLEM)()
    if problem:
        logger.error("%s", problem)
    return not problem


PROBES: dict[str, Callable[[], bool]] = {
    "database": database_answers,
    "cache": cache_answers,
    "migrations": migrations_are_applied,
    "encryption": encryption_keys_fit,
    "peppers": peppers_fit,
    "worker": worker_beats,
}


class FromMetricsNetwork(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return client_address.within(request.META.get("REMOTE_ADDR", ""), settings.METRICS_ALLOW)


class HasReadingToken(IsAuthenticated):
    """Accepts a token without scopes, or with one to read."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        token: Any = request.auth
        return super().has_permission(request, view) and (not token.scopes or token.has_scope("read"))


class MetricsView(APIView):
    """Metrics in Prometheus' format, with a token or from METRICS_ALLOW."""

    permission_classes = [FromMetricsNetwork | HasReadingToken]
    http_method_names = ["get", "head"]
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(metrics.exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")
