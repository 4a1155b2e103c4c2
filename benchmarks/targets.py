"""The three servers that are compared: the service, stock, and the limit, all in the same web server."""

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import Failed, Request
from benchmarks.resources import Figure
from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port


@dataclass(frozen=True)
class Target:
    name: str
    settings: str
    application: str
    scheme: str


SERVICE = Target("service", "benchmarks.settings", "relayer_service.wsgi:application", "Bearer")
STOCK = Target("stock", "benchmarks.stock.settings", "benchmarks.stock.wsgi:application", "Token")
LIMIT = Target("limit", "benchmarks.settings", "benchmarks.limit:application", "Bearer")
TARGETS = [SERVICE, STOCK, LIMIT]


@dataclass(frozen=True)
class Running:
    target: Target
    port: int
    token: str

    def request(self, figure: Figure) -> Request:
        body = figure.resource.new if figure.method == "POST" else ""
        return Request(self.port, figure.path, f"{self.target.scheme} {self.token}", figure.method, body)

    def answer(self, figure: Figure) -> bytes:
        """Make a figure's request once and return the body of its answer."""
        request = self.request(figure)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            headers = {"Authorization": request.authorization, "Content-Type": "application/json"}
            connection.request(request.method, request.path, request.body or None, headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status not in {200, 201}:
            raise Failed(f"{self.target.name} answered {response.status} to {figure.title}: {body[:200]!r}")
        return body


@contextmanager
def running(target: Target, token: str, environment: dict[str, str], logs: Path) -> Iterator[Running]:
    """Serve a target with the service's own configuration of the web server."""
    port = free_port()
    env = (
        os.environ | environment | {"DJANGO_SETTINGS_MODULE": target.settings, "HOST": "127.0.0.1", "PORT": f"{port}"}
    )
    command = [sys.executable, "-m", "gunicorn", "-c", "python:relayer_service.gunicorn_conf", target.application]
    with (logs / f"{target.name}.log").open("wb") as file:
        process = subprocess.Popen(command, env=env, cwd=PROJECT, stdout=file, stderr=file)
        try:
            wait_for_port(port)
            yield Running(target, port, token)
        finally:
            stop(process)
