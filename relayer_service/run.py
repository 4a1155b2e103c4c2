"""`make run`: prepare DATA_DIR, then run the web server and the worker until Ctrl-C."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 30
STOP_SECONDS = 30
# A process that dies this often within a minute has a reason that restarting does not cure.
MOST_RESTARTS = 5


class CannotStart(Exception):
    """What is wrong, in one line that says what to do."""


@dataclass
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  # a comparison
        return f"http://[{reachable}]:{self.port}" if ":" in reachable else f"http://{reachable}:{self.port}"


def main() -> int:
    try:
        # A word of advice instead of a traceback, also where the settings refuse a value.
        from django.core.exceptions import ImproperlyConfigured

        address = read_address()
        data_dir = prepare_data_dir(Path(os.environ.get("DATA_DIR", "var")).absolute())
        require_free_port(address)
        create_secrets(data_dir)
        try:
            first_start = prepare_service(data_dir)
        except ImproperlyConfigured as error:
            raise CannotStart(str(error)) from None
    except CannotStart as problem:
        print(f"Cannot start: {problem}", file=sys.stderr)
        return 1
    return Supervisor(address, first_start).run()


def read_address() -> Address:
    port = os.environ.get("PORT", "8000")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise CannotStart("PORT must be a number from 1 to 65535.")
    return Address(os.environ.get("HOST", "127.0.0.1"), int(port))


def prepare_data_dir(data_dir: Path) -> Path:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = data_dir / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CannotStart(f"DATA_DIR {data_dir} cannot be written to ({error.strerror}).") from None
    return data_dir


def require_free_port(address: Address) -> None:
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        raise CannotStart(
            f"port {address.port} on {address.host} cannot be used ({error.strerror}); set PORT or HOST."
        ) from None


def create_secrets(data_dir: Path) -> None:
    """Make the secrets that are neither in the environment nor in DATA_DIR yet."""
    for name in ("SECRET_KEY", "ENCRYPTION_KEYS", "TOKEN_PEPPERS"):
        path = data_dir / name.lower()
        if name in os.environ or path.exists():
            continue
        value = secrets.token_urlsafe(64)
        if name != "SECRET_KEY":
            value = "1:" + base64.b64encode(secrets.token_bytes(32)).decode()
        # Written aside and moved, so that a start cut off here leaves no half of a key.
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(value + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)


def prepare_service(data_dir: Path) -> list[str]:
    """Migrate, collect static files and, on the first start, make the admin; give the lines to print of it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")
    os.environ.setdefault("PROFILE", "local")
    os.environ["DATA_DIR"] = str(data_dir)
    import django
    from django.core.management import call_command

    django.setup()
    from relayer_service.tasks import prepare_queue

    call_command("check")
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    prepare_queue()
    metrics = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if metrics:
        shutil.rmtree(metrics, ignore_errors=True)
        Path(metrics).mkdir()
    return create_admin()


def create_admin() -> list[str]:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import transaction

    users = get_user_model().objects
    if users.exists():
        return []
    password = secrets.token_urlsafe(15)
    with transaction.atomic():
        users.create_superuser("admin", password=password)
        token = str(call_command("issue_token", "first token", user="admin", stdout=open(os.devnull, "w")))  # noqa: PTH123,SIM115
    return [f"Admin login  admin / {password}", f"Token        {token}"]


class Supervisor:
    """Run the web server and the worker, start again what dies, stop both on the first signal."""

    def __init__(self, address: Address, first_start: list[str]) -> None:
        self.address = address
        self.first_start = first_start
        self.stopping = False
        self.commands = {
            "web": [sys.executable, "-m", "gunicorn", "-c", "python:relayer_service.gunicorn_conf"],
            "worker": [sys.executable, "manage.py", "worker"],
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts: list[float] = []

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        try:
            for name in self.commands:
                self._start(name)
            ready = self._wait_until_up()
            self._greet(ready)
            while ready and not self.stopping:
                ready = self._restart_dead()
                time.sleep(0.2)
        finally:
            self._end()
        return 0 if self.stopping else 1

    def _start(self, name: str) -> None:
        # In a session of its own: Ctrl-C reaches this process alone, which then ends the two in order.
        self.processes[name] = subprocess.Popen(self.commands[name], start_new_session=True)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def _wait_until_up(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and not self.stopping:
            if any(process.poll() is not None for process in self.processes.values()):
                print("Cannot start: a process ended at once; its reason is above.", file=sys.stderr)
                return False
            try:
                with urllib.request.urlopen(self.address.url + "/health", timeout=1):  # noqa: S310  # our own URL
                    return True
            except OSError:
                time.sleep(0.1)
        return False

    def _greet(self, ready: bool) -> None:
        url = self.address.url
        lines = []
        if ready:
            lines += [f"Service      {url}", f"Admin        {url}/admin/", f"API docs     {url}/api/docs"]
        lines += self.first_start
        if self.first_start:
            token = self.first_start[-1].split()[-1]
            lines += [
                "             (shown this once; keep them)",
                f"Try          curl -H 'Authorization: Bearer {token}' {url}/api/v1/signers",
            ]
        else:
            lines.append("Token        issue one with: .venv/bin/python manage.py issue_token NAME")
        print("\n" + "\n".join(lines) + "\nCtrl-C stops it.\n", flush=True)

    def _restart_dead(self) -> bool:
        """Start again what died; give False when that has become pointless."""
        for name, process in self.processes.items():
            if process.poll() is None or self.stopping:
                continue
            self.restarts = [moment for moment in self.restarts if moment > time.monotonic() - 60]
            self.restarts.append(time.monotonic())
            if len(self.restarts) > MOST_RESTARTS:
                print(f"The {name} process keeps dying: stopping.", file=sys.stderr)
                return False
            print(f"The {name} process died ({process.returncode}): starting it again.", file=sys.stderr)
            self._start(name)
        return True

    def _end(self) -> None:
        for process in self.processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in self.processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    sys.exit(main())
