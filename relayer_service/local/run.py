"""`make run`: create secrets, check, migrate and collect static files, then run web server and worker until Ctrl-C."""

import base64
import hashlib
import io
import os
import secrets
import sys
from pathlib import Path

import django
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.staticfiles.finders import get_finders
from django.core.checks import ERROR, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import DatabaseError, transaction
from dotenv import load_dotenv

from relayer_service import extensions
from relayer_service.configuration.checks import OF_OPERATORS
from relayer_service.local.supervisor import PROJECT, Supervisor
from relayer_service.server.serving import CannotStart, listen


def main() -> int:
    load_dotenv(PROJECT / ".env")
    # Files written from here on are not readable by other users of the machine.
    os.umask(0o077)
    try:
        data_dir = Path(os.environ.get("DATA_DIR") or PROJECT / "var").absolute()
        prepare_data_dir(data_dir)
        # Read by the settings of all processes.
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
    return Supervisor().run(print_banner)


def prepare_data_dir(data_dir: Path) -> None:
    """Create the directory, and the secrets that are neither in it nor in the environment."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        for name in ("SECRET_KEY", "ENCRYPTION_KEYS", "TOKEN_PEPPERS"):
            if name not in os.environ and not (data_dir / name.lower()).exists():
                create_secret(data_dir / name.lower())
        written = data_dir / f".written-{os.getpid()}"
        written.touch()
        written.unlink()
    except OSError as error:
        raise CannotStart(f"DATA_DIR {data_dir} cannot be written to ({error.strerror}).") from None


def create_secret(path: Path) -> None:
    value = secrets.token_urlsafe(64)
    if path.name != "secret_key":
        value = "1:" + base64.b64encode(secrets.token_bytes(32)).decode()
    # Renamed when complete, so that an interrupted start leaves no partial key.
    partial = path.with_suffix(f".{os.getpid()}")
    with partial.open("w") as file:
        file.write(value + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def prepare_service() -> None:
    try:
        django.setup()
        for message in run_checks(tags=OF_OPERATORS):
            if message.level >= ERROR:
                raise CannotStart(" ".join(filter(None, (message.msg, message.hint))))
        from relayer_service.background.tasks import prepare_queue

        call_command("migrate", verbosity=0)
        collect_static_files()
        prepare_queue()
    except DatabaseError as error:
        reason = str(error).partition("\n")[0]
        raise CannotStart(f"the database cannot be used ({reason}); check DATABASE_URL.") from None
    except OSError as error:
        raise CannotStart(f"DATA_DIR {settings.DATA_DIR} cannot be written to ({error.strerror}).") from None


def collect_static_files() -> None:
    """Collect static files, which takes seconds, unless they are unchanged."""
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


def print_banner() -> None:
    """Print the URLs and, on the first run, login and token."""
    reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(settings.HOST, settings.HOST)  # noqa: S104  # a comparison
    url = f"http://{reachable}:{settings.PORT}"
    lines = [f"Service      {url}", f"Admin        {url}/admin/", f"API docs     {url}/api/docs"]
    if settings.EXTENSIONS:
        lines.append(f"Extensions   {', '.join(settings.EXTENSIONS)} (disable them with: EXTENSIONS= make run)")
    else:
        lines.append(f"Extensions   none (enable them with: EXTENSIONS={','.join(extensions.BUILT)} make run)")
    # Created last and printed immediately: after a failed start the next one creates and prints them.
    if created := create_admin():
        password, token, explanation = created
        lines += [
            f"Admin login  admin / {password}",
            f"Token        {token}",
            "             (shown only once)",
            f"             {explanation}",
            f"Try          curl -H 'Authorization: Bearer {token}' {url}/api/v1/signers",
        ]
    else:
        where = "" if settings.DATA_DIR == settings.BASE_DIR / "var" else f"DATA_DIR={settings.DATA_DIR} "
        lines.append(f"New token    {where}PROFILE=local .venv/bin/python manage.py issue_token NAME --scope manage")
    print("\n" + "\n".join(lines) + "\nPress Ctrl-C to stop.\n", flush=True)


def create_admin() -> tuple[str, str, str] | None:
    """Create the first user; return its password, its token and a description of the token's scopes, which are all.

    Return None if there already is a user.
    """
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


if __name__ == "__main__":
    sys.exit(main())
