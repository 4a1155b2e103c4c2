"""`manage.py check --deploy` on the environment of a production deployment: it must be silent."""

import os
import subprocess
import sys
import tempfile

from tests.servers import PROJECT

PRODUCTION = {
    "SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "ENCRYPTION_KEYS": "1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "TOKEN_PEPPERS": "1:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=",
    "DATABASE_URL": "postgresql://relayer@127.0.0.1:5432/relayer",
    "REDIS_URL": "redis://127.0.0.1:6379/0",
    "ALLOWED_HOSTS": "relayer.example.com",
    "WEB_PROCESSES": "4",
}


def main() -> int:
    with tempfile.TemporaryDirectory() as data_dir:
        environment = {"PATH": os.environ["PATH"], "DATA_DIR": data_dir} | PRODUCTION
        command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "DEBUG"]
        return subprocess.call(command, env=environment, cwd=PROJECT)


if __name__ == "__main__":
    sys.exit(main())
