"""The watch of a web process over the workers: without one left, only web processes can report it."""

import time

from django.utils.module_loading import import_string

from relayer_service import processes
from relayer_service.background.tasks import HEARTBEAT_SECONDS
from relayer_service.observability.probes import Probes

CHECK_SECONDS = 60.0
CHECKS = {
    "the workers": "notifications.worker_check.check",
    "alerts without a worker": "incidents.tasks.alert_without_worker",
}

checks: Probes[None] = Probes("The check of")


def watch_forever() -> None:
    """Check the workers at the interval of their heartbeats."""
    functions = {name: import_string(path) for name, path in CHECKS.items()}
    time.sleep(processes.WATCH_AFTER_SECONDS)
    while True:
        checks.run(functions, CHECK_SECONDS)
        time.sleep(HEARTBEAT_SECONDS)
