"""A page of the admin costs the same number of queries however many rows it shows."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from notifications.models import Delivery, Notification
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.models import PeriodicRun
from tokens.writes import issue


@pytest.fixture
def staff_client(static_files: None, db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("olga"))
    return client


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


@pytest.mark.parametrize(
    "path",
    [
        "/admin/",
        "/admin/tokens/accesstoken/",
        "/admin/tokens/accesstoken/add/",
        "/admin/auth/user/",
        "/admin/auth/group/",
        "/admin/relayer_service/periodicrun/",
        "/admin/relayer_service/auditentry/",
        "/admin/notifications/notification/",
        "/admin/notifications/delivery/",
    ],
)
def test_a_page_of_100_rows_makes_as_many_queries_as_one_of_5(staff_client: Client, path: str) -> None:
    add_rows(0, 5)
    # What is read once in a process is read before the counting.
    staff_client.get(path)
    with CaptureQueriesContext(connection) as few:
        assert staff_client.get(path).status_code == 200
    add_rows(5, 100)
    with CaptureQueriesContext(connection) as many:
        assert staff_client.get(path).status_code == 200
    assert len(many) == len(few)
