"""The endpoints for monitoring: /health, /ready and /metrics, and the metrics server of a worker."""

import socket
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache as cached
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
from relayer_service.observability.probes import ProbeFailed, Probes, ProbeTimedOut

# Deadline of all probes of /ready. They are also a part of /metrics, which has a longer deadline.
PROBE_SECONDS = 1.0
MAX_BEAT_AGE = timedelta(seconds=4 * HEARTBEAT_SECONDS)
# Periodic work is late after three of its intervals, but not before this.
MIN_LATE = timedelta(minutes=1)
METRICS_PATH = "/metrics"

readiness: Probes[None] = Probes("The readiness probe of")


@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Return the state of each part that responses depend on, with public details of failures."""
    parts = {name: "ok" if works else "failed" for name, works in parts_that_work().items()}
    failed = [name for name, state in parts.items() if state == "failed" and name in settings.READY_REQUIRES]
    status = HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK
    body: dict[str, Any] = {"status": "not ready" if failed else "ready", "parts": parts}
    if notes := [note for name, note in ready_notes().items() if parts[name] == "failed"]:
        body["notes"] = notes
    response = JsonResponse(body, status=status)
    # Django would log an error for each 503; a probe logs once when it starts to fail.
    response._has_been_logged = True  # type: ignore[attr-defined]  # Django sets it after logging a response
    return response


def ready_notes() -> dict[str, str]:
    """Return the public details of failures by part, such as the tokens without a matching pepper."""
    peppers = readiness.failures.get("peppers")
    notes = {"peppers": str(peppers)} if isinstance(peppers, ProbeFailed) else {}
    return {"cache": "rate limits are not enforced", **notes}


def parts_that_work() -> dict[str, bool]:
    """Return by name whether each part works, which includes a response before the deadline."""
    worked = readiness.run(PROBES, PROBE_SECONDS)
    return {name: name in worked for name in PROBES}


def has_timed_out(name: str) -> bool:
    """Return whether the last check of a part did not respond in time, which says nothing about the cause."""
    return isinstance(readiness.failures.get(name), ProbeTimedOut)


# Each probe raises an exception if its part fails.


def require_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def require_cache() -> None:
    # Only Redis has a `ping`, and can be unavailable.
    if hasattr(cache, "ping") and not cache.ping():
        raise ProbeFailed("no response to a ping")


def require_migrations() -> None:
    applied = MigrationRecorder(connection).migration_qs.values_list("app", "name")
    if missing := all_migrations() - set(applied):
        raise ProbeFailed(f"{len(missing)} migrations are not applied")


@cached
def all_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).graph.nodes)


def require_worker() -> None:
    """Require a recent heartbeat, which shows that a worker runs tasks and can write, and no late periodic work."""
    # The database's clock decides, as a worker's may be wrong.
    rows = PeriodicRun.objects.values_list("name", Now() - F("started_at"), Now() - F("finished_at"))
    ages = {name: (since_start, since_finish) for name, since_start, since_finish in rows}
    _, since_beat = ages.get(HEARTBEAT, (None, None))
    # A heartbeat in the future is ignored as well: the clock was wrong, and the next heartbeat overwrites it.
    if since_beat is None or abs(since_beat) > MAX_BEAT_AGE:
        raise ProbeFailed("no recent heartbeat from a worker")
    late = [name for name in periodic_intervals() if name in ages and is_late(name, ages[name][0])]
    if late:
        raise ProbeFailed(f"periodic work is late: {', '.join(late)}")


def is_late(name: str, age: timedelta) -> bool:
    """Return whether periodic work that last started this long ago is late."""
    seconds = periodic_intervals().get(name)
    return seconds is not None and age > max(3 * timedelta(seconds=seconds), MIN_LATE)


def require_encryption_keys() -> None:
    if problems := EncryptionKey.objects.problems():
        raise ProbeFailed(" ".join(problems))


def require_peppers() -> None:
    if problem := import_string("tokens.checks.problem_of_all")():
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
    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("relayer_ready", "Whether a part of /ready works.", labels=["part"])
        for part, works in parts_that_work().items():
            family.add_metric([part], works)
        yield family


metrics.shared.register(ReadyCollector())


def is_within_metrics_network(request: HttpRequest | Request) -> bool:
    return is_within(request.META.get("REMOTE_ADDR", ""), settings.METRICS_ALLOW)


class CommonMiddleware(common.CommonMiddleware):
    """Django's, but a scrape from METRICS_ALLOW may have any `Host`, as Prometheus scrapes processes by address."""

    def process_request(self, request: HttpRequest) -> Any:
        if request.path_info == METRICS_PATH and is_within_metrics_network(request):
            return None
        return super().process_request(request)


class FromMetricsNetwork(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_within_metrics_network(request)


class HasReadingToken(IsAuthenticated):
    def has_permission(self, request: Request, view: APIView) -> bool:
        token: Any = request.auth
        if token and token.scopes and not token.has_scope("read"):
            raise InsufficientScope("read")
        return super().has_permission(request, view)


class MetricsView(APIView):
    """Metrics in Prometheus' format, for clients with a token or in METRICS_ALLOW."""

    permission_classes = [FromMetricsNetwork | HasReadingToken]
    http_method_names = ["get", "head"]
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


class MetricsHandler(BaseHTTPRequestHandler):
    # A client that sends nothing is closed after so many seconds.
    timeout = 10

    def do_GET(self) -> None:  # the name is http.server's
        if self.path != METRICS_PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = metrics.own_exposition()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", metrics.CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is http.server's
        """Log nothing, as scrapes are frequent."""


class MetricsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), MetricsHandler)

    def verify_request(self, request: Any, client: Any) -> bool:
        """Return whether to accept a connection; others are closed before a thread is started for them."""
        return is_within(client[0], settings.METRICS_ALLOW)


def start_metrics_server(host: str, port: int) -> MetricsServer:
    server = MetricsServer(host, port)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
