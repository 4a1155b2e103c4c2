"""A page of the admin costs the same number of queries however many rows it shows."""

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from notifications.models import Delivery, Notification
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.models import PeriodicRun
from tokens.writes import issue

PATHS = [
    *("/admin/", "/admin/tokens/accesstoken/", "/admin/tokens/accesstoken/add/", "/admin/auth/user/"),
    *("/admin/auth/group/", "/admin/relayer_service/periodicrun/", "/admin/relayer_service/auditentry/"),
    *("/admin/notifications/notification/", "/admin/notifications/delivery/"),
]


def add_rows(first: int, last: int) -> None:
    """Add rows of every kind, each token of a user of its own."""
    now = timezone.now()
    for number in range(first, last):
        user = User.objects.create_user(f"user-{number}")
        with acting_as(ActorKind.USER, "olga"):
            issue(name=f"token {number}", user=user, last_used_at=now)
        PeriodicRun.objects.create(name=f"work {number}", slot=1, started_at=now)
        target = Notification.objects.create(identifier=f"hook {number}", url="https://example.com/", gone_at=now)
        Delivery.objects.create(notification=target, event="notification.test", body=b"{}", due_at=now)


def count_queries(client: Client, path: str) -> tuple[str, int]:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return path, len(queries)


def test_a_page_of_100_rows_makes_as_many_queries_as_one_of_5(static_files: None, db: None) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("olga"))
    add_rows(0, 5)
    # What is read once in a process is read before the counting.
    few = [[count_queries(client, path) for path in PATHS] for _ in range(2)][1]
    add_rows(5, 100)
    assert [count_queries(client, path) for path in PATHS] == few
