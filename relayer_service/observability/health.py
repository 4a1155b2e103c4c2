"""The pages that monitoring reads: /health, /ready and /metrics."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache as cached
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware import common
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.views import APIView

from relayer_service.background.tasks import HEARTBEAT, HEARTBEAT_SECONDS, periodic_intervals
from relayer_service.models import EncryptionKey, PeriodicRun
from relayer_service.net.incoming import InsufficientScope, is_within
from relayer_service.observability import metrics
from relayer_service.observability.probes import ProbeFailed, Probes

# How long /ready waits for all its probes. They are a part of /metrics too, which waits a little longer.
PROBE_SECONDS = 1.0
# How long a heartbeat counts.
MAX_BEAT_AGE = timedelta(seconds=4 * HEARTBEAT_SECONDS)
# Periodic work is late after three of its intervals, but not sooner than this.
MIN_LATE = timedelta(minutes=1)
METRICS_PATH = "/metrics"

readiness: Probes[None] = Probes("The readiness probe of")


@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200: this process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Return the state of each part that answers depend on, and the keys of tokens that no pepper verifies."""
    parts = {name: "ok" if works else "failed" for name, works in parts_that_work().items()}
    failed = [name for name, state in parts.items() if state == "failed" and name in settings.READY_REQUIRES]
    status = HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK
    body: dict[str, Any] = {"status": "not ready" if failed else "ready", "parts": parts}
    if notes := [note for name, note in ready_notes().items() if parts[name] == "failed"]:
        body["notes"] = notes
    response = JsonResponse(body, status=status)
    # Django would log an error for each 503; the probes log once that they fail, and why.
    response._has_been_logged = True  # type: ignore[attr-defined]  # what Django sets after it has logged one
    return response


def ready_notes() -> dict[str, str]:
    """Return, by part, the public details of a failure."""
    peppers = readiness.failures.get("peppers")
    named = {"peppers": str(peppers)} if isinstance(peppers, ProbeFailed) else {}
    return {"cache": "rate limits are not enforced", **named}


def parts_that_work() -> dict[str, bool]:
    """Return by name whether each part works; one that does not answer by the deadline does not."""
    worked = readiness.run(PROBES, PROBE_SECONDS)
    return {name: name in worked for name in PROBES}


# A probe raises an error if its part does not work.


def require_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def require_cache() -> None:
    # Only Redis can be away.
    if hasattr(cache, "ping") and not cache.ping():
        raise ProbeFailed("it does not work")


def require_migrations() -> None:
    applied = MigrationRecorder(connection).migration_qs.values_list("app", "name")
    if missing := all_migrations() - set(applied):
        raise ProbeFailed(f"{len(missing)} of them are not applied")


@cached
def all_migrations() -> frozenset[tuple[str, str]]:
    """Return the migrations of all apps: slow to load, and the same for as long as the process runs."""
    return frozenset(MigrationLoader(None).graph.nodes)


def require_worker() -> None:
    """Require that a worker takes tasks and can write, as the heartbeat does, and that no periodic work is late."""
    # By the clock of the database, as that of a worker may be wrong.
    rows = PeriodicRun.objects.values_list("name", Now() - F("started_at"), Now() - F("finished_at"))
    ages = {name: (since_start, since_finish) for name, since_start, since_finish in rows}
    _, since_beat = ages.get(HEARTBEAT, (None, None))
    # One of a time to come is no news: a clock was set back, or was wrong, and whoever beats overwrites it.
    if since_beat is None or abs(since_beat) > MAX_BEAT_AGE:
        raise ProbeFailed("no worker has a heartbeat")
    late = [
        name
        for name, seconds in periodic_intervals().items()
        if name in ages and ages[name][0] > max(3 * timedelta(seconds=seconds), MIN_LATE)
    ]
    if late:
        raise ProbeFailed(f"periodic work is late: {', '.join(late)}")


def require_encryption_keys() -> None:
    """Require every key that was used for encryption, with the same value."""
    if problems := EncryptionKey.objects.problems():
        raise ProbeFailed(" ".join(problems))


def require_peppers() -> None:
    """Require a pepper that verifies each token that is in use, as far as can be known."""
    if problem := import_string(settings.PEPPER_PROBLEM)():
        raise ProbeFailed(problem)


PROBES: dict[str, Callable[[], None]] = {
    "database": require_database,
    "cache": require_cache,
    "migrations": require_migrations,
    "encryption": require_encryption_keys,
    "peppers": require_peppers,
    "worker": require_worker,
}


class ReadyCollector(Collector):
    """The parts of /ready, each 1 while it works and else 0."""

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("relayer_ready", "Whether a part of /ready works.", labels=["part"])
        for part, works in parts_that_work().items():
            family.add_metric([part], works)
        yield family


metrics.shared.register(ReadyCollector())


def is_within_metrics_network(request: HttpRequest | Request) -> bool:
    return is_within(request.META.get("REMOTE_ADDR", ""), settings.METRICS_ALLOW)


class CommonMiddleware(common.CommonMiddleware):
    """Django's, but a scrape from METRICS_ALLOW may name any host: Prometheus finds processes by their address."""

    def process_request(self, request: HttpRequest) -> Any:
        if request.path_info == METRICS_PATH and is_within_metrics_network(request):
            return None
        return super().process_request(request)


class FromMetricsNetwork(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_within_metrics_network(request)


class HasReadingToken(IsAuthenticated):
    """Accepts a token without scopes, or with one to read."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        token: Any = request.auth
        if token and token.scopes and not token.has_scope("read"):
            raise InsufficientScope("read")
        return super().has_permission(request, view)


class MetricsView(APIView):
    """Metrics in Prometheus' format, with a token or from METRICS_ALLOW."""

    permission_classes = [FromMetricsNetwork | HasReadingToken]
    http_method_names = ["get", "head"]
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(metrics.exposition(), content_type=metrics.CONTENT_TYPE)
