"""Run background work until SIGTERM: what is running is finished, what is queued stays queued."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.utils.module_loading import autodiscover_modules

from relayer_service.ops.tasks import Worker, prepare_queue, queue, watchdog


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--beat", type=Path, metavar="FILE", help="touched every few seconds while all is well")

    def handle(self, *args: Any, **options: Any) -> None:
        watchdog.beat_file = options["beat"]
        autodiscover_modules("tasks")
        prepare_queue()
        worker = Worker(
            queue,
            workers=settings.WORKER_THREADS,
            graceful_signal="TERM",
            shutdown_timeout=settings.WORKER_STOP_SECONDS,
        )
        worker.run()
