"""The files in `deploy/`: they say the same as the service, as each other, and as docs/operations.md."""

import http.server
import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from relayer_service import processes
from relayer_service.background import tasks
from relayer_service.local.supervisor import Supervisor
from relayer_service.server import serving
from tests import dockerfile, proxy, servers
from tests.check_deploy import PRODUCTION
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.dockerfile import Stage
from tests.servers import PROJECT, free_port
from tests.test_repository import variables_read

DEPLOY = PROJECT / "deploy"
healthcheck = importlib.import_module("deploy.healthcheck")
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
    steps = re.findall(r"^ExecStart=(.*)$", UNITS["relayer-migrate.service"], re.M)
    assert steps == [
        " ".join([python, *SERVICES["migrate"]["command"][1:]]),
        *(
            step.replace("/opt/venv/bin/python", python)
            for step in re.findall(r"^ *(/opt\S+ manage.*\S) \\$", DOCKERFILE, re.M)
        ),
    ]


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


def test_compose_has_each_part_and_limits_what_it_may_use_and_do() -> None:
    assert SERVICES.keys() == {"migrate", "web-1", "web-2", "worker", "proxy", "postgres", "redis", "prometheus"}
    assert SERVICES["worker"]["deploy"] == {"replicas": 2}
    for name, service in SERVICES.items():
        assert name == "postgres" or service["read_only"] is True, name
        assert {"mem_limit", "cpus", "pids_limit"} <= service.keys()
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
        assert set(service.get("cap_add", [])) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    command = SERVICES["redis"]["command"]
    kept = command[command.index("--maxmemory") + 1].removesuffix("mb")
    # Half of it is for copies while it writes and for connections.
    assert int(kept) * 2 <= int(SERVICES["redis"]["mem_limit"].removesuffix("m"))
    for name in ("relayer-web@.service", "relayer-worker@.service"):
        unit, container = Unit(name)["Service"], SERVICES["web-1"]
        assert (unit["MemoryMax"].lower(), int(unit["TasksMax"])) == (container["mem_limit"], container["pids_limit"])


def test_every_image_has_an_exact_version() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    images = {service["image"] for service in SERVICES.values()} - {SERVICES["web-1"]["image"]}
    assert len(images) == 4
    exact = re.compile(r"\w+:\d+\.\d+(\.\d+)?-[a-z]\S+|prom/\w+:v\d+\.\d+\.\d+")
    assert all(exact.fullmatch(image) for image in {*images, *bases})
    assert SERVICES["web-1"]["image"] == "relayer-service:${VERSION:?is missing in deploy/.env}"


def test_what_is_unhealthy_or_hangs_ends_and_is_started_again() -> None:
    for name in ("web-1", "web-2", "worker", "proxy", "redis"):
        service = SERVICES[name]
        kind, command = service["healthcheck"]["test"]
        # Signals do not end the first process of a container, which for this reason is not the service itself.
        assert (kind, command.partition(" || ")[2], service["init"]) == ("CMD-SHELL", "kill -KILL -1", True)
        assert service["restart"] == "unless-stopped"
    worker = Unit("relayer-worker@.service")["Service"]
    assert (worker["Type"], worker["Restart"], seconds(worker["WatchdogSec"])) == ("notify", "always", 120)


def test_a_health_check_may_take_as_long_as_it_asks() -> None:
    check = SERVICES["web-1"]["healthcheck"]
    asks = int(re.findall(r"healthcheck\.py (\d+)", check["test"][1])[0])
    assert seconds(check["timeout"]) > asks + healthcheck.SECONDS_UNTIL_USED + 2 * healthcheck.ANSWER_SECONDS


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
    assert upstream == list(addresses.values()) * 2


def test_prometheus_finds_each_process_where_compose_runs_it() -> None:
    web, worker = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert web["static_configs"] == [{"targets": [f"{name}:8000" for name in SERVICES if name.startswith("web-")]}]
    port = int(SERVICES["worker"]["command"][-1].partition(":")[2])
    assert worker["dns_sd_configs"] == [{"names": ["worker"], "type": "A", "port": port}]


def test_the_proxy_takes_bodies_as_long_as_the_service_does_and_drops_connections_before_it() -> None:
    assert re.findall(r"client_max_body_size (\S+);", NGINX["nginx.conf"]) == [str(settings.MAX_REQUEST_BYTES)]
    (kept,) = re.findall(r"^ *keepalive_timeout (\d+)s;", NGINX["upstream.conf"], re.M)
    assert int(kept) < min(processes.DRAIN_SECONDS, processes.CLIENT_TIMEOUT_SECONDS)


def test_the_proxy_uses_a_restarted_process_before_the_next_is_stopped() -> None:
    timeouts = re.findall(r"fail_timeout=(\d+)s", NGINX["upstream.conf"])
    # nginx counts whole seconds.
    assert [int(timeout) + 1 < healthcheck.SECONDS_UNTIL_USED for timeout in timeouts] == [True] * 2
    for command in (
        Unit("relayer-web@.service")["Service"]["ExecStartPost"],
        SERVICES["web-1"]["healthcheck"]["test"][1],
    ):
        assert re.search(r"deploy/healthcheck\.py \d+", command)


def test_processes_may_stop_for_longer_than_they_need() -> None:
    web = processes.DRAIN_SECONDS + serving.STOP_SECONDS
    assert seconds(SERVICES["web-1"]["stop_grace_period"]) > web
    assert seconds(Unit("relayer-web@.service")["Service"]["TimeoutStopSec"]) > web
    assert seconds(SERVICES["worker"]["stop_grace_period"]) > tasks.STOP_SECONDS
    assert seconds(Unit("relayer-worker@.service")["Service"]["TimeoutStopSec"]) > tasks.STOP_SECONDS


def seconds(text: str) -> int:
    return int(text.rstrip("s"))


@pytest.fixture(scope="module")
def image() -> Iterator[Stage]:
    # Not a folder of pytest, which no other user can enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        built = dockerfile.build(DEPLOY / "Dockerfile", PROJECT, Path(folder))
        yield built
        dockerfile.set_writable(built.root, True)


def test_the_image_has_the_packages_of_the_service_and_no_others(image: Stage) -> None:
    packages = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    made = {"__pycache__", "data", "deploy", "docs", "manage.py", "requirements.lock", "requirements-providers.lock"}
    of_service = {path.parent.name for path in PROJECT.glob("*/__init__.py")}
    of_service -= {name.rstrip("*") for name in packages["exclude"]}
    assert {path.name for path in image.folder.iterdir()} - made == of_service
    # What the admin shows.
    assert [path.name for path in (image.folder / "docs").iterdir()] == ["runbooks.md"]


def test_the_image_passes_the_checks_of_a_deployment(image: Stage) -> None:
    check = ["python", "manage.py", "check", "--deploy", "--fail-level", "DEBUG"]
    assert image.run(check, PRODUCTION) == (0, "System check identified no issues (0 silenced).\n")


def test_the_image_answers_as_its_user_on_a_root_that_is_read_only(image: Stage) -> None:
    assert image.run(["touch", "/srv/relayer/written"], {})[0] == 1
    environment = PRODUCTION | {"PORT": str(free_port()), "WEB_PROCESSES": "1"}
    wait_for_health(image, image.command, image.health_check, environment)


def test_a_worker_of_the_image_is_healthy_for_compose(image: Stage) -> None:
    *command, address = SERVICES["worker"]["command"]
    command.append(address.replace("9100", str(free_port())))
    check = SERVICES["worker"]["healthcheck"]["test"][1].partition(" || ")[0].replace("$$", "$")
    wait_for_health(image, command, ["sh", "-c", check], PRODUCTION)


def wait_for_health(image: Stage, command: list[str], check: list[str], environment: dict[str, str]) -> None:
    with image.start(command, environment) as process:
        try:
            wait_until(lambda: process.poll() is not None or image.run(check, environment)[0] == 0)
            assert process.poll() is None
        finally:
            process.terminate()
            print(process.communicate(timeout=PATIENCE_SECONDS)[0])


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
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert check_health(held.getsockname()[1]) == 1


def test_a_process_that_starts_has_to_answer_until_the_proxy_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [False, True, False, True, True]
    slept: list[float] = []
    monkeypatch.setattr(healthcheck, "answers", lambda: answers.pop(0))
    monkeypatch.setattr(healthcheck.time, "sleep", slept.append)
    assert healthcheck.main(["60"]) == 0
    assert slept == [0.2, healthcheck.SECONDS_UNTIL_USED, 0.2, healthcheck.SECONDS_UNTIL_USED]


def test_a_renewed_certificate_is_copied_out_of_its_links_and_the_proxy_reloaded(tmp_path: Path) -> None:
    archive, live, folder = tmp_path / "archive/example", tmp_path / "live/example", tmp_path / "tls"
    for path in (archive, live):
        path.mkdir(parents=True)
    for name in ("fullchain", "privkey"):
        (archive / f"{name}1.pem").write_text(name)
        (live / f"{name}.pem").symlink_to(f"../../archive/example/{name}1.pem")
    hook = [str(DEPLOY / "certbot-hook.sh"), str(folder), "touch", str(tmp_path / "reloaded")]
    subprocess.run(
        hook, env=os.environ | {"RENEWED_LINEAGE": str(live), "TLS_OWNER": str(os.getuid())}, check=True, umask=0o077
    )
    copied = {path.name: (path.is_symlink(), oct(path.stat().st_mode & 0o777)) for path in folder.iterdir()}
    assert copied == {"fullchain.pem": (False, "0o644"), "privkey.pem": (False, "0o400")}
    assert oct(folder.stat().st_mode & 0o777) == "0o755"
    assert (tmp_path / "reloaded").exists()
    places = re.findall(r"^ssl_certificate(?:_key)? (\S+);", NGINX["listen.conf"], re.M)
    assert places == ["/etc/nginx/tls/fullchain.pem", "/etc/nginx/tls/privkey.pem"]
    assert "${TLS_FOLDER:?is missing in deploy/.env}:/etc/nginx/tls:ro" in SERVICES["proxy"]["volumes"]


def test_the_documented_environment_has_what_the_deployment_needs() -> None:
    containers, units = (
        set(re.findall(r"^    ([A-Z_]+)=", text, re.M)) for text in documented("> .env", "/environment")
    )
    assert containers == set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text()))
    given = SERVICES["web-1"]["environment"].keys()
    assert (units, units - KNOWN) == (given, set())


def test_the_documented_proxy_shares_no_address_with_what_scrapes_beside_it(tmp_path: Path) -> None:
    environment, install = documented("> /etc/relayer/environment", "    cp deploy/nginx", end="    systemctl")
    shutil.copytree(DEPLOY / "nginx", tmp_path, dirs_exist_ok=True)
    commands = "\n".join(re.findall(r"^    (sed .*)$", install, re.M)).replace("/etc/nginx", str(tmp_path))
    subprocess.run(["sh", "-ec", commands], check=True)
    upstream = (tmp_path / "upstream.conf").read_text()
    assert re.findall(r"^ *server (\S+) ", upstream, re.M) == ["127.0.0.1:8001", "127.0.0.1:8002"] * 2
    trusted = re.findall(r"^    TRUSTED_PROXIES=(.*)$", environment, re.M)
    assert trusted == re.findall(r"^proxy_bind (\S+);$", upstream, re.M) == ["127.0.0.2"]


def test_the_documented_manage_command_and_upgrade_are_those_of_the_units() -> None:
    (command,) = documented("    manage() {", end="\n    }\n")
    worker = Unit("relayer-worker@.service")["Service"]
    python, program, *_ = worker["ExecStart"].split()
    assert {
        f"--uid={worker['User']}",
        f"--gid={worker['Group']}",
        f"--working-directory={worker['WorkingDirectory']}",
        f"--property=EnvironmentFile={worker['EnvironmentFile']}",
        f"--setenv={worker['Environment']}",
        python,
        program,
    } <= set(command.split())
    (upgrade,) = documented("With systemd, after the new release", end="With containers")
    commands = re.findall(r"^    (cp deploy/systemd|systemctl [\w-]+)", upgrade, re.M)
    assert commands == ["cp deploy/systemd", "systemctl daemon-reload", *["systemctl restart"] * 4]


def documented(*begins: str, end: str = "    END\n") -> list[str]:
    """Return the parts of docs/operations.md that begin with these words."""
    text = (PROJECT / "docs/operations.md").read_text()
    return [text[text.index(begin) :].partition(end)[0] for begin in begins]


def check_health(port: int) -> int:
    environment = os.environ | {"PORT": str(port), "ALLOWED_HOSTS": ".example.com,localhost"}
    return subprocess.call([sys.executable, DEPLOY / "healthcheck.py"], env=environment)


@pytest.mark.parametrize("code", [0, 1])
def test_a_backup_that_is_read_in_part_is_no_success(tmp_path: Path, code: int) -> None:
    stubs = {
        "pg_restore": rf"case $1 in --data-only) printf 'COPY a (b) FROM stdin;\n1\n\\.\n'; exit {code};; esac",
        "psql": "sed -n \"s/^SELECT '\\([a-z ]*\\)';$/\\1/p\"",
    }
    for name, text in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DATABASE_URL": "unused"}
    assert subprocess.run([DEPLOY / "restore.sh", "unused"], env=env, capture_output=True).returncode == code
