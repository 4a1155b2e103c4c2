"""Stock: the settings of `startproject` with the REST framework, on the same database, served the same way."""

from relayer_service.ops import environment
from relayer_service.storage import databases

# The web server's configuration and the database pool are the service's own, so that the code alone differs.
HOST = environment.host("HOST", "127.0.0.1")
PORT = environment.integer("PORT", 8000, minimum=1, maximum=65_535)
WEB_PROCESSES = environment.integer("WEB_PROCESSES", 1, minimum=1)
WEB_THREADS = environment.integer("WEB_THREADS", 64, minimum=1)
DATABASES = {
    "default": databases.postgresql(
        environment.text("DATABASE_URL"),
        pool_size=environment.integer("DATABASE_POOL_SIZE", 20, minimum=1),
        statement_timeout_ms=environment.integer("DATABASE_STATEMENT_TIMEOUT_MS", 15_000),
        lock_timeout_ms=environment.integer("DATABASE_LOCK_TIMEOUT_MS", 5_000),
        prepare=False,
    )
}
LOGGING = {"version": 1, "disable_existing_loggers": False}

SECRET_KEY = "for-benchmarks-only"
ALLOWED_HOSTS = ["*"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
ROOT_URLCONF = "benchmarks.stock.urls"
WSGI_APPLICATION = "benchmarks.stock.wsgi.application"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "benchmarks.stock",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 10,
}
