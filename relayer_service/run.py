"""`make run`: prepare DATA_DIR, then run the web server and the worker until Ctrl-C."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.core.checks import ERROR, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import DatabaseError
from dotenv import load_dotenv

from relayer_service import extensions
from relayer_service.processes import signal_when_parent_dies
from relayer_service.server import CannotStart, listen

PROJECT = Path(__file__).resolve().parent.parent
START_SECONDS = 30
STOP_SECONDS = 30
# Within a minute: a process that ends more often is not cured by a restart.
MAX_RESTARTS = 5


def main() -> int:
    load_dotenv(PROJECT / ".env")
    # Files written from here on are not readable by other users of the machine.
    os.umask(0o077)
    try:
        data_dir = Path(os.environ.get("DATA_DIR") or PROJECT / "var").absolute()
        prepare_data_dir(data_dir)
        # What the settings of all processes read.
        os.environ["DATA_DIR"] = str(data_dir)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")
        os.environ.setdefault("PROFILE", "local")
        listen(settings.HOST, settings.PORT).close()
        prepare_service()
    except (CannotStart, ImproperlyConfigured) as problem:
        print(f"Cannot start: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return Supervisor().run()


def prepare_data_dir(data_dir: Path) -> None:
    """Create the directory, and in it the secrets that are neither there nor in the environment."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        for name in ("SECRET_KEY", "ENCRYPTION_KEYS", "TOKEN_PEPPERS"):
            if name not in os.environ and not (data_dir / name.lower()).exists():
                create_secret(data_dir / name.lower())
        probe = data_dir / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CannotStart(f"DATA_DIR {data_dir} cannot be written to ({error.strerror}).") from None


def create_secret(path: Path) -> None:
    value = secrets.token_urlsafe(64)
    if path.name != "secret_key":
        value = "1:" + base64.b64encode(secrets.token_bytes(32)).decode()
    # Renamed when complete, so that a start that is interrupted here leaves no half of a key.
    partial = path.with_suffix(f".{os.getpid()}")
    with partial.open("w") as file:
        file.write(value + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def prepare_service() -> None:
    """Check the settings, migrate and collect static files."""
    import django

    try:
        django.setup()
        for message in run_checks():
            if message.level >= ERROR:
                raise CannotStart(" ".join(filter(None, (message.msg, message.hint))))
        from relayer_service.background.tasks import prepare_queue

        call_command("migrate", verbosity=0)
        collect_static_files()
        prepare_queue()
    except DatabaseError as error:
        reason = str(error).partition("\n")[0]
        raise CannotStart(f"the database cannot be used ({reason}); look at DATABASE_URL.") from None
    except OSError as error:
        raise CannotStart(f"DATA_DIR {settings.DATA_DIR} cannot be written to ({error.strerror}).") from None


def collect_static_files() -> None:
    """Collect static files, which takes seconds, unless they are the ones that were collected last."""
    from django.contrib.staticfiles.finders import get_finders

    state = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            path = Path(storage.path(name))
            state.update(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}\n".encode())
    collected = Path(settings.STATIC_ROOT) / ".collected"
    if collected.exists() and collected.read_text() == state.hexdigest():
        return
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    collected.write_text(state.hexdigest())


def create_admin() -> tuple[str, str, str] | None:
    """Create the first user and its token, with every scope that there is.

    Return the password, the token and what it may do in words; None if there is a user already.
    """
    from django.contrib.auth import get_user_model
    from django.db import transaction

    users = get_user_model().objects
    if users.exists():
        return None
    password = secrets.token_urlsafe(15)
    with transaction.atomic():
        users.create_superuser("admin", password=password)
        output, explanation = io.StringIO(), io.StringIO()
        scopes = extensions.available_scopes()
        call_command("issue_token", "first token", user="admin", scope=scopes, stdout=output, stderr=explanation)
    return password, output.getvalue().strip(), explanation.getvalue().strip()


class Supervisor:
    """Runs the web server and the worker, restarts what dies, and stops both on the first signal."""

    def __init__(self) -> None:
        self.stopping = False
        self.arguments = {"web": ["-m", "relayer_service.server"], "worker": ["manage.py", "worker"]}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts: list[float] = []

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        # The web process writes to its end once it can answer, and answers once this end is closed: so the banner
        # comes before the first answer.
        gate, web_end = socket.socketpair()
        try:
            with gate:
                with web_end:
                    self._start("web", web_end.fileno())
                self._start("worker")
                is_up = self._comes_up(gate)
                if is_up:
                    self._greet()
            while is_up and not self.stopping and self._restart_dead():
                time.sleep(0.2)
        finally:
            self._end()
        return 0 if self.stopping else 1

    def _start(self, name: str, gate: int | None = None) -> None:
        # In a session of its own: Ctrl-C reaches only this process, which then ends the two in order.
        command = [sys.executable, *self.arguments[name]]
        self.processes[name] = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=os.environ if gate is None else {**os.environ, "START_GATE": str(gate)},
            pass_fds=() if gate is None else (gate,),
            start_new_session=True,
            preexec_fn=lambda: signal_when_parent_dies(signal.SIGTERM),  # there is only one thread
        )

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def _comes_up(self, gate: socket.socket) -> bool:
        deadline = time.monotonic() + START_SECONDS
        gate.setblocking(False)
        while not self.stopping:
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                problem = f"the {dead[0]} process ended" if dead else "the web process does not answer"
                print(f"Cannot start: {problem}; its reason is above.", file=sys.stderr)
                return False
            with suppress(BlockingIOError):
                if gate.recv(1):
                    return True
            time.sleep(0.05)
        return False

    def _greet(self) -> None:
        reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(settings.HOST, settings.HOST)  # noqa: S104  # a comparison
        url = f"http://{reachable}:{settings.PORT}"
        lines = [f"Service      {url}", f"Admin        {url}/admin/", f"API docs     {url}/api/docs"]
        if settings.EXTENSIONS:
            lines.append(f"Extensions   {', '.join(settings.EXTENSIONS)} (off with: EXTENSIONS= make run)")
        else:
            lines.append(f"Extensions   none (on with: EXTENSIONS={','.join(extensions.BUILT)} make run)")
        # Created last and printed at once, so that after a failed start the next one prints them.
        created = create_admin()
        if created:
            password, token, explanation = created
            lines += [
                f"Admin login  admin / {password}",
                f"Token        {token}",
                "             (shown this once; keep them)",
                f"             {explanation}",
                f"Try          curl -H 'Authorization: Bearer {token}' {url}/api/v1/signers",
            ]
        else:
            data_dir = Path(os.environ["DATA_DIR"])
            where = "" if data_dir == PROJECT / "var" else f"DATA_DIR={data_dir} "
            lines.append(f"New token    {where}.venv/bin/python manage.py issue_token NAME")
        print("\n" + "\n".join(lines) + "\nCtrl-C stops it.\n", flush=True)

    def _restart_dead(self) -> bool:
        """Restart what died; return False when that has become pointless."""
        for name, process in self.processes.items():
            if process.poll() is None or self.stopping:
                continue
            self.restarts = [moment for moment in self.restarts if moment > time.monotonic() - 60]
            self.restarts.append(time.monotonic())
            if len(self.restarts) > MAX_RESTARTS:
                print(f"The {name} process keeps dying: stopping.", file=sys.stderr)
                return False
            print(f"The {name} process died ({process.returncode}): starting it again.", file=sys.stderr)
            kill_session(process)
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
                process.wait()
            kill_session(process)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """End the children that a process left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
