"""Run background work until SIGTERM. Running tasks finish; queued tasks stay queued."""

import gc
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from relayer_service.background.tasks import Worker, prepare_queue, watchdog
from relayer_service.configuration.checks import OF_OPERATORS
from relayer_service.health.views import start_metrics_server


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = OF_OPERATORS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--beat", type=Path, metavar="FILE", help="a file to touch while the worker is healthy")
        parser.add_argument(
            "--metrics",
            type=address,
            metavar="HOST:PORT",
            help="serve /metrics at this address, to the networks in METRICS_ALLOW",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        watchdog.beat_file = options["beat"]
        autodiscover_modules("tasks")
        if options["metrics"]:
            host, port = options["metrics"]
            try:
                start_metrics_server(host, port)
            except OSError as error:
                raise CommandError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
        prepare_queue()
        # As in web processes.
        gc.collect()
        gc.freeze()
        Worker().run()


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not in the format HOST:PORT")
    return host.strip("[]"), int(port)
