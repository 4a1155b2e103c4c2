"""The watch over the workers, with real processes."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from notifications.models import Delivery, Notification
from relayer_service.models import PeriodicRun
from tests import processes
from tests.concurrency import wait_until
from tests.notifications.receivers import receiver

CONSTANTS = "relayer_service.processes.WATCH_AFTER_SECONDS=0"


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_web_processes_report_stopped_workers_and_the_next_worker(tmp_path: Path) -> None:
    then = timezone.now() - timedelta(minutes=5)
    PeriodicRun.objects.create(name="heartbeat", slot=1, started_at=then, finished_at=then)
    allowed = {"WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}
    with receiver() as target:
        Notification.objects.create(identifier="hook", url=target.url, events="worker.*")
        with processes.web(tmp_path / "web.log", TEST_CONSTANTS=CONSTANTS, WEB_PROCESSES="2", **allowed):
            wait_until(lambda: Delivery.objects.filter(state="delivered").exists())
            worker = processes.worker(None, **allowed)
            try:
                wait_until(lambda: Delivery.objects.filter(state="delivered").count() == 2)
            finally:
                worker.kill()
                worker.wait()
        assert [json.loads(request.body)["type"] for request in target.requests] == [
            "worker.stopped",
            "worker.resumed",
        ]
