"""The files in `deploy/`: they say the same as the service, as each other, and as docs/operations.md."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from relayer_service.run import Supervisor
from tests import proxy, servers
from tests.servers import PROJECT
from tests.test_repository import variables_read

DEPLOY = PROJECT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
UNITS = {path.name: path.read_text() for path in (DEPLOY / "systemd").glob("*.service")}
NGINX = {path.name: path.read_text() for path in (DEPLOY / "nginx").glob("*.conf")}
WEB, WORKER = (Supervisor().arguments[name] for name in ("web", "worker"))
# Read by the settings' helpers, by Prometheus' client and by Python.
KNOWN = variables_read((PROJECT / "relayer_service/settings.py").read_text()) | {
    "PROMETHEUS_MULTIPROC_DIR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "PATH",
}


class Unit(RawConfigParser):
    """A unit's sections; the same key may stand there twice, and the last one stays."""

    def __init__(self, name: str) -> None:
        super().__init__(strict=False, interpolation=None)
        self.read_string(UNITS[name])

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (PROJECT / lock).read_text(), re.M))


def test_image_and_units_run_what_make_run_runs() -> None:
    commands = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.M)
    assert [json.loads(command) for command in commands] == [["python", *WEB]]
    assert SERVICES["worker"]["command"] == ["python", *WORKER, "--beat", "/tmp/beat", "--metrics", "0.0.0.0:9100"]
    python = "/opt/relayer/.venv/bin/python"
    assert Unit("relayer-web@.service")["Service"]["ExecStart"].split() == [python, *WEB]
    assert Unit("relayer-worker@.service")["Service"]["ExecStart"].split() == [python, *WORKER]


def test_every_variable_that_the_service_is_given_is_one_of_its_settings() -> None:
    image = re.findall(r"(\w+)=", DOCKERFILE[DOCKERFILE.rindex("ENV PATH") : DOCKERFILE.index("USER")])
    named = set(image)
    for name in ("migrate", "web-1", "web-2", "worker"):
        named |= SERVICES[name]["environment"].keys()
    for unit in UNITS.values():
        named |= {
            word for line in re.findall(r"^Environment=(.*)$", unit, re.M) for word in re.findall(r"(\w+)=", line)
        }
    assert {"DATABASE_URL", "TRUSTED_PROXIES", "PORT", "DATABASE_STATEMENT_TIMEOUT_MS"} <= named
    assert named - KNOWN == set()


def test_no_secret_has_a_value_in_a_file() -> None:
    secrets = {"SECRET_KEY", "ENCRYPTION_KEYS", "TOKEN_PEPPERS"}
    for service in ("migrate", "web-1", "web-2", "worker"):
        given = SERVICES[service]["environment"]
        assert {name: given[name] for name in secrets} == {
            name: f"${{{name}:?is missing in deploy/.env}}" for name in secrets
        }
    assert not secrets & set(re.findall(r"^(?:ENV|ARG) .*?(\w+)=", DOCKERFILE, re.M))
    assert not any(f"{name}=" in unit for name in secrets for unit in UNITS.values())


def test_compose_has_each_part_of_the_topology() -> None:
    assert SERVICES.keys() == {"migrate", "web-1", "web-2", "worker", "proxy", "postgres", "redis", "prometheus"}
    assert SERVICES["worker"]["deploy"] == {"replicas": 2}
    for name in ("migrate", "web-1", "web-2", "worker", "proxy", "redis", "prometheus"):
        assert (SERVICES[name]["read_only"], SERVICES[name]["cap_drop"]) == (True, ["ALL"]), name


def test_proxy_and_web_processes_know_each_others_addresses() -> None:
    addresses = {
        name: service["networks"]["default"]["ipv4_address"]
        for name, service in SERVICES.items()
        if "networks" in service
    }
    assert SERVICES["web-1"]["environment"]["TRUSTED_PROXIES"] == addresses.pop("proxy")
    prometheus = f"${{METRICS_ALLOW:-{addresses.pop('prometheus')}}}"
    assert [SERVICES[name]["environment"]["METRICS_ALLOW"] for name in ("web-1", "worker")] == [prometheus] * 2
    upstream = re.findall(r"^ *server (\S+):8000 ", NGINX["upstream.conf"], re.M)
    assert upstream == list(addresses.values())


def test_prometheus_finds_each_process_where_compose_runs_it() -> None:
    web, worker = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert web["static_configs"] == [{"targets": [f"{name}:8000" for name in SERVICES if name.startswith("web-")]}]
    port = int(SERVICES["worker"]["command"][-1].partition(":")[2])
    assert worker["dns_sd_configs"] == [{"names": ["worker"], "type": "A", "port": port}]


def test_the_proxy_takes_bodies_as_long_as_the_service_does() -> None:
    assert re.findall(r"client_max_body_size (\S+);", NGINX["nginx.conf"]) == [str(settings.MAX_REQUEST_BYTES)]


def test_the_proxy_drops_an_idle_connection_before_the_web_server_does() -> None:
    (kept,) = re.findall(r"^ *keepalive_timeout (\d+)s;", NGINX["upstream.conf"], re.M)
    assert int(kept) < settings.CLIENT_TIMEOUT_SECONDS


def test_processes_may_stop_for_longer_than_they_need() -> None:
    web = settings.WEB_DRAIN_SECONDS + settings.WEB_STOP_SECONDS
    assert seconds(SERVICES["web-1"]["stop_grace_period"]) > web
    assert seconds(Unit("relayer-web@.service")["Service"]["TimeoutStopSec"]) > web
    assert seconds(SERVICES["worker"]["stop_grace_period"]) > settings.WORKER_STOP_SECONDS
    assert seconds(Unit("relayer-worker@.service")["Service"]["TimeoutStopSec"]) > settings.WORKER_STOP_SECONDS


def seconds(text: str) -> int:
    return int(text.rstrip("s"))


def test_every_file_that_the_image_takes_is_sent_to_the_engine() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.M)
    sent = set(re.findall(r"^!(\S+)$", (PROJECT / ".dockerignore").read_text(), re.M))
    assert {name for line in copied for name in line.split()} == sent
    assert all((PROJECT / name).exists() for name in sent)


def test_the_locks_of_the_image_pin_the_versions_that_are_tested() -> None:
    tested, plain, providers = (pins(f"requirements{kind}.lock") for kind in ("-dev", "", "-providers"))
    assert "boto3" in providers
    assert plain.items() <= providers.items() <= tested.items()


def test_the_units_hold_what_systemd_knows(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    for name, text in UNITS.items():
        # Where the service is not installed, its programs are missing.
        (tmp_path / name).write_text(text.replace("/opt/relayer/.venv/bin/python", sys.executable))
    files = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run([analyze, "verify", "--man=no", *files], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_nginx_takes_the_files_without_a_warning(tmp_path: Path) -> None:
    try:
        command = proxy.prepare(proxy.new(tmp_path), [8001, 8002])
    except servers.Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run([*command, "-t", "-q"], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(("answers", "code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_as_the_proxy_does(answers: int, code: int) -> None:
    hosts: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hosts.append(f"{self.headers['Host']} {self.path}")
            self.send_response(answers)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        servers.serving(server, threading.Event()),
    ):
        assert check_health(server.server_port) == code
    assert hosts == ["example.com /health"]


def test_the_health_check_fails_where_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert check_health(held.getsockname()[1]) == 1


def check_health(port: int) -> int:
    environment = os.environ | {"PORT": str(port), "ALLOWED_HOSTS": ".example.com,localhost"}
    return subprocess.call([sys.executable, DEPLOY / "healthcheck.py"], env=environment)
