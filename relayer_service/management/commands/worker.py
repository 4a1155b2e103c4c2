"""Run background work until SIGTERM: what is running is finished, what is queued stays queued."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils.module_loading import autodiscover_modules

from relayer_service.ops.tasks import Worker, prepare_queue, queue


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        autodiscover_modules("tasks")
        prepare_queue()
        worker = Worker(
            queue,
            workers=settings.WORKER_THREADS,
            graceful_signal="TERM",
            shutdown_timeout=settings.WORKER_STOP_SECONDS,
        )
        worker.run()
