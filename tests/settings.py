"""The service's settings with fixed secrets and a small resource of the tests' own."""

import json
import os
import tempfile
from importlib import import_module
from pathlib import Path

SECRETS = {
    "SECRET_KEY": "a-key-for-tests-only-0123456789-abcdefghijklmnopqrstuvwxyz",
    "ENCRYPTION_KEYS": "1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "TOKEN_PEPPERS": "1:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=",
}
for name, value in SECRETS.items():
    os.environ.setdefault(name, value)
os.environ.setdefault("DATA_DIR", tempfile.mkdtemp(prefix="relayer-tests-"))
# Each process of a run that is spread over several has a folder of its own; what it starts gets the same.
worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if worker and Path(os.environ["DATA_DIR"]).name != worker:
    os.environ["DATA_DIR"] = str(Path(os.environ["DATA_DIR"]) / worker)
os.environ.setdefault("PROFILE", "local")
os.environ.setdefault("LOG_FORMAT", "json")
# One authority, whose key nobody has: to read those of the machine takes 0.1 s of a processor per TLS context.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))
os.environ["SSL_CERT_DIR"] = ""
# The contract alone; tests of extensions switch on their own.
os.environ.setdefault("EXTENSIONS", "")
# What takes long on a busy machine is no failure; tests of these limits set their own.
for name in ("DATABASE_LOCK_TIMEOUT_MS", "DATABASE_STATEMENT_TIMEOUT_MS"):
    os.environ.setdefault(name, "600000")

from relayer_service.settings import *  # noqa: E402, F403
from relayer_service.settings import (  # noqa: E402
    DATA_DIR,
    DATABASES,
    INSTALLED_APPS,
    MIDDLEWARE,
    STATIC_ROOT,
    STORAGES,
)

INSTALLED_APPS = [*INSTALLED_APPS, "tests.sample"]
MIDDLEWARE = [*MIDDLEWARE, "tests.sample.middleware.CrashOnRequestMiddleware"]
ROOT_URLCONF = "tests.sample.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
RATE_LIMIT_SAMPLE = os.environ.get("RATE_LIMIT_SAMPLE", "1000/s")

# What the processes of a run share.
RUN_DIR = DATA_DIR.parent if worker else DATA_DIR
# A file, so that each thread and each process of a test has a connection of its own.
if "sqlite" in DATABASES["default"]["ENGINE"]:
    DATABASES["default"]["TEST"] = {"NAME": str(RUN_DIR / "test.sqlite3")}

# Pages name static files without a hash, so that they need not be collected first.
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}

# Constants that a test replaces in processes that it starts: `relayer_service.processes.DRAIN_SECONDS=5`.
for replaced in os.environ.get("TEST_CONSTANTS", "").split():
    path, _, number = replaced.partition("=")
    module, _, constant = path.rpartition(".")
    setattr(import_module(module), constant, json.loads(number))
