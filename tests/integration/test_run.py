"""`make run` as a stranger meets it: the first start, the second, the ways it can fail, and its end."""

import http.cookiejar
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from relayer_service.processes import is_running
from tests.api import WireApi
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.processes import children
from tests.servers import PROJECT, free_port

COMMAND = [sys.executable, "-m", "relayer_service.local.run"]


def environment(data_dir: Path, **extra: str) -> dict[str, str]:
    """Return an environment without the settings and secrets of the tests."""
    return {"PATH": os.environ["PATH"], "DATA_DIR": str(data_dir), **extra}


@dataclass
class Service:
    """The service as `make run` starts it, and what it has printed so far."""

    data_dir: Path
    port: int = field(default_factory=free_port)
    extra: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start it and wait for nothing but its first answer."""
        self.output, self.log = (self.data_dir.with_suffix(f".{self.port}.{kind}") for kind in ("out", "log"))
        env = environment(self.data_dir, PORT=str(self.port), **self.extra)
        with self.output.open("wb") as output, self.log.open("wb") as log:
            self.process = subprocess.Popen(COMMAND, env=env, cwd=PROJECT, stdout=output, stderr=log)
        wait_until(lambda: answers(self.port) or self.process.poll() is not None)
        # Read at once: the banner is printed before the first answer.
        self.lines = self.output.read_text().splitlines()
        assert self.process.poll() is None, self.errors()

    def errors(self) -> str:
        return self.log.read_text()

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def printed(self, label: str) -> str:
        return next(line for line in self.lines if line.startswith(label)).removeprefix(label).strip()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that has started for the first time; the last test of it kills it."""
    service = Service(tmp_path_factory.mktemp("run") / "new" / "data")
    service.data_dir.parent.mkdir()
    service.start()
    yield service
    service.stop()


def run(command: list[str], env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def refusal(data_dir: Path, **extra: str) -> tuple[int, str, str]:
    """Start a service that must not start, and return its exit code and what it printed."""
    env = environment(data_dir, **{"PORT": str(free_port()), **extra})
    done = run(COMMAND, env, PROJECT)
    return done.returncode, done.stdout, done.stderr


PERMISSIONS = (
    "list, read and estimate fees; create, change and delete; send transactions, and read the relayers that send "
    "them; sign messages and typed data; replace itself by a new token"
)


def test_the_first_start_prints_urls_login_and_token_before_it_answers(service: Service) -> None:
    password, token = service.printed("Admin login  admin /"), service.printed("Token")
    assert re.fullmatch(r"[\w-]{20}", password)
    assert re.fullmatch(r"rms_\w{12}_\w{46}", token)
    assert service.lines == [
        "",
        f"Service      {service.url}",
        f"Admin        {service.url}/admin/",
        f"API docs     {service.url}/api/docs",
        "Extensions   lifecycle, quotes, signing, transactions (disable them with: EXTENSIONS= make run)",
        f"Admin login  admin / {password}",
        f"Token        {token}",
        "             (shown only once)",
        f"             Permissions: {PERMISSIONS}.",
        f"Try          curl -H 'Authorization: Bearer {token}' {service.url}/api/v1/signers",
        "Press Ctrl-C to stop.",
        "",
    ]
    assert password not in service.errors()
    assert token not in service.errors()


def test_nothing_in_data_dir_can_be_read_by_other_users(service: Service) -> None:
    assert oct(service.data_dir.stat().st_mode & 0o777) == "0o700"
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in service.data_dir.iterdir() if path.is_file()}
    assert {"secret_key", "encryption_keys", "token_peppers", "db.sqlite3", "tasks.sqlite3"} < set(modes)
    assert set(modes.values()) == {"0o600"}


def test_the_printed_token_is_accepted_and_another_is_not(service: Service) -> None:
    token = service.printed("Token")
    assert WireApi(token, service.port).get("/api/v1/signers").status != 401
    assert WireApi(token, service.port).get("/metrics").status == 200
    assert WireApi(port=service.port).get("/metrics").status == 401


def test_the_printed_login_opens_the_admin(service: Service) -> None:
    cookies = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(cookies))
    page = f"{service.url}/admin/login/?next=/admin/"
    csrf = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.open(page).read().decode())
    assert csrf is not None
    form = {
        "csrfmiddlewaretoken": csrf[1],
        "username": "admin",
        "password": service.printed("Admin login  admin /"),
    }
    with browser.open(page, urllib.parse.urlencode(form).encode()) as answer:
        assert (answer.status, answer.url) == (200, f"{service.url}/admin/")
    assert "sessionid" in {cookie.name for cookie in cookies}


def test_the_service_becomes_ready_with_its_worker(service: Service) -> None:
    wait_until(lambda: WireApi(port=service.port).get("/ready").status == 200)


@pytest.mark.long
def test_a_token_can_be_issued_while_the_service_runs(service: Service) -> None:
    command = [sys.executable, "manage.py", "issue_token", "beside"]
    env = environment(service.data_dir)
    issued = subprocess.run(command, env=env, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"rms_\w{12}_\w{46}\n", issued)
    assert WireApi(issued.strip(), service.port).get("/metrics").status == 200


@pytest.mark.long
def test_a_second_start_shows_no_secret_and_stops_cleanly_on_ctrl_c(service: Service) -> None:
    again = Service(service.data_dir, extra={"EXTENSIONS": ""})
    again.start()
    family = children(again.process.pid)
    assert {"relayer_service.server", "worker"} <= {word for command in family.values() for word in command.split()}
    assert again.stop(signal.SIGINT) == 0
    command = "PROFILE=local .venv/bin/python manage.py"
    assert again.lines == [
        "",
        f"Service      {again.url}",
        f"Admin        {again.url}/admin/",
        f"API docs     {again.url}/api/docs",
        "Extensions   none (enable them with: EXTENSIONS=lifecycle,quotes,signing,transactions make run)",
        f"New token    DATA_DIR={service.data_dir} {command} issue_token NAME --scope manage",
        "Press Ctrl-C to stop.",
        "",
    ]
    assert [pid for pid in family if is_running(pid)] == []


@pytest.mark.long
def test_a_worker_and_a_web_server_that_die_are_started_again(service: Service) -> None:
    def pid_of(part: str) -> int:
        """Return the process that the service itself has started for this, not one that that has started in turn."""
        command = ["ps", "-o", "pid=,args=", "--ppid", str(service.process.pid)]
        started = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        return next((int(line.split()[0]) for line in started if part in line), 0)

    for part in ("manage.py worker", "relayer_service.server"):
        killed = pid_of(part)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda part=part, killed=killed: pid_of(part) not in {0, killed})  # type: ignore[misc]  # bound now
    wait_until(lambda: answers(service.port))
    assert "The worker process exited (-9): restarting it." in service.errors()
    assert "The web process exited (-9): restarting it." in service.errors()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process when its parent exits")
def test_a_service_that_is_killed_leaves_no_process(service: Service) -> None:
    # Those that were restarted a moment ago may not have their own yet.
    wait_until(lambda: len(children(service.process.pid)) >= 3)
    left = children(service.process.pid)
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not any(is_running(pid) for pid in left))


def answers(port: int) -> bool:
    try:
        return WireApi(port=port).get("/health").status == 200
    except OSError:
        return False


def test_a_busy_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert refusal(tmp_path / "data", PORT=str(port)) == (
            1,
            "",
            f"Cannot start: port {port} on 127.0.0.1 cannot be used (Address already in use); set PORT or HOST.\n",
        )


def test_a_data_dir_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    data_dir = tmp_path / "file" / "data"
    assert refusal(data_dir) == (1, "", f"Cannot start: DATA_DIR {data_dir} cannot be written to (Not a directory).\n")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        # One of the settings, of the checks and of the database; each start takes seconds.
        ("WEB_THREADS", "many", "WEB_THREADS must be an integer of at least 1"),
        ("SECRET_KEY", "short", "SECRET_KEY is shorter than 50 characters"),
        ("DATABASE_URL", "sqlite:/dev/null/x", "the database cannot be used (unable to open database file)"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                ("PORT", "65536", "PORT must be an integer from 1 to 65535"),
                ("ENCRYPTION_KEYS", "1:short", "ENCRYPTION_KEYS must be a list of id:key pairs"),
                ("TASK_QUEUE_URL", "amqp://127.0.0.1", "TASK_QUEUE_URL must begin with redis://, postgresql:// or"),
                ("HOST", "192.0.2.1", "port"),
            )
        ),
    ],
)
def test_a_bad_setting_is_one_line_that_names_it(tmp_path: Path, name: str, value: str, problem: str) -> None:
    code, output, errors = refusal(tmp_path, **{name: value})
    assert (code, output) == (1, "")
    assert errors.startswith(f"Cannot start: {problem}")
    assert errors.count("\n") == 1


def test_a_python_that_is_too_old_is_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.9.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    for name in ("Makefile", "requirements.lock"):
        shutil.copy(PROJECT / name, tmp_path)
    # Without the variables that the make that runs the tests passes to its children.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = run(["make", "run", f"PYTHON={old}"], env, tmp_path)
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == f"Cannot start: Python 3.11 or newer is needed, {old} is Python 3.9.1."
    assert not (tmp_path / ".venv").exists()
