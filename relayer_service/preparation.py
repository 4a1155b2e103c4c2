"""The steps of `make run` before the processes start: secrets, checks, migrations, static files."""

import base64
import hashlib
import os
import secrets
from pathlib import Path

from django.conf import settings
from django.core.checks import ERROR, run_checks
from django.core.management import call_command
from django.db import DatabaseError

from relayer_service.server import CannotStart


def prepare_data_dir(data_dir: Path) -> None:
    """Create the directory, and the secrets that are neither in it nor in the environment."""
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
    # Renamed when complete, so that an interrupted start leaves no partial key.
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
        raise CannotStart(f"the database cannot be used ({reason}); check DATABASE_URL.") from None
    except OSError as error:
        raise CannotStart(f"DATA_DIR {settings.DATA_DIR} cannot be written to ({error.strerror}).") from None


def collect_static_files() -> None:
    """Collect static files, which takes seconds, unless they are unchanged."""
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
