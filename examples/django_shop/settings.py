import os

SECRET_KEY = "for-this-example-only"  # noqa: S105
DEBUG = True
CONTRIB = ["admin", "auth", "contenttypes", "messages", "sessions", "staticfiles"]
INSTALLED_APPS = [*(f"django.contrib.{name}" for name in CONTRIB), "relayer_client.outbox", "payouts"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]
ENGINE = "django.template.backends.django.DjangoTemplates"
TEMPLATES = [{"BACKEND": ENGINE, "APP_DIRS": True, "OPTIONS": {"context_processors": PROCESSORS}}]
ROOT_URLCONF = "payouts.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}

RELAYER_CLIENT = {
    "URL": os.environ.get("RELAYER_URL", "http://127.0.0.1:8000"),
    "TOKEN": os.environ.get("RELAYER_TOKEN"),
}
TOKEN_CONTRACT = os.environ.get("TOKEN_CONTRACT")
