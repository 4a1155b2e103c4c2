"""All settings, each from the environment with a default fit for production; `.env.example` documents them."""

import gc
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dotenv import load_dotenv

from relayer_service import __version__, extensions
from relayer_service.configuration import environment as env
from relayer_service.console import theme
from relayer_service.database import access
from relayer_service.observability import logs

BASE_DIR = Path(__file__).resolve().parent.parent
load_dotenv(BASE_DIR / ".env")

# New objects until a garbage collection, in all processes. By default a sixth of the startup is spent on collections,
# and rows come by the thousand, few of them in cycles.
gc.set_threshold(50_000)

# All files that the service writes: SQLite databases, generated secrets, collected static files.
DATA_DIR = Path(env.text("DATA_DIR", str(BASE_DIR / "var"))).absolute()

# `local` is what `make run` uses: plain HTTP on this machine, one web process, SQLite.
PROFILE = env.choice("PROFILE", "production", {"production", "local"})
LOCAL = PROFILE == "local"
DEBUG = False

# Secrets have no default: a missing one fails at startup, a weak one fails the system checks.
SECRET_KEY = env.secret("SECRET_KEY", DATA_DIR)
ENCRYPTION_KEYS = env.keyring("ENCRYPTION_KEYS", DATA_DIR)
TOKEN_PEPPERS = env.keyring("TOKEN_PEPPERS", DATA_DIR)

# The address of the web server.
HOST = env.host("HOST", "127.0.0.1")
PORT = env.integer("PORT", 8000, minimum=1, maximum=65_535)

# Access to the service.
ALLOWED_HOSTS = env.listing("ALLOWED_HOSTS", f"localhost,127.0.0.1,[::1],{HOST}" if LOCAL else "")
CSRF_TRUSTED_ORIGINS = env.listing("CSRF_TRUSTED_ORIGINS")
# Where people open the admin, for links in alerts; by default at the first host that is not a pattern.
FIRST_HOST = next((host for host in ALLOWED_HOSTS if not host.startswith((".", "*"))), "")
DEFAULT_URL = f"http://{FIRST_HOST}:{PORT}" if LOCAL else f"https://{FIRST_HOST}"
PUBLIC_URL = env.url("PUBLIC_URL", ("http://", "https://")).rstrip("/") or (DEFAULT_URL if FIRST_HOST else "")
# Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")
METRICS_ALLOW = env.networks("METRICS_ALLOW")
READY_REQUIRES = env.listing("READY_REQUIRES", "database,cache,migrations,encryption,peppers,worker")

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not LOCAL
SESSION_COOKIE_AGE = 12 * 60 * 60
# Which users must have a second factor to use the admin; all others may.
REQUIRE_SECOND_FACTOR = env.choice(
    "REQUIRE_SECOND_FACTOR",
    "none" if LOCAL else "superusers",
    {"none", "superusers", "Owner", "Manager", "Operator", "Viewer", "staff"},
)
# How long an invitation is valid.
PASSWORD_RESET_TIMEOUT = 3 * 24 * 60 * 60
SECURE_HSTS_SECONDS = 0 if LOCAL else 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = not LOCAL
SECURE_SSL_REDIRECT = not LOCAL and env.boolean("HTTPS_REDIRECT", True)
# Load balancers use plain HTTP. API requests are rejected (`HttpsOnlyMiddleware`): the token was already sent.
SECURE_REDIRECT_EXEMPT = [r"^health$", r"^ready$", r"^metrics$", r"^api(/|$)"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None

# Pages load resources from this origin only, and no inline scripts.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        # The admin theme's Alpine.js evaluates the expressions in its markup.
        "script-src": ["'self'", "'unsafe-eval'"],
        # The theme, Swagger UI and Redoc use inline styles.
        "style-src": ["'self'", "'unsafe-inline'"],
        # The style sheet of Swagger UI embeds its icons.
        "img-src": ["'self'", "data:"],
        # Redoc runs its search in a worker created from a blob.
        "worker-src": ["'self'", "blob:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# Processes, and threads per process.
WEB_PROCESSES = env.integer("WEB_PROCESSES", 1, minimum=1)
WEB_THREADS = env.integer("WEB_THREADS", 64, minimum=1)
WORKER_THREADS = env.integer("WORKER_THREADS", 32, minimum=1)

# Storage.
DATABASE_URL = env.text("DATABASE_URL")
DATABASES = {
    "default": access.configuration(
        DATABASE_URL,
        DATA_DIR / "db.sqlite3",
        pool_size=env.integer("DATABASE_POOL_SIZE", 20, minimum=1),
        statement_timeout_ms=env.integer("DATABASE_STATEMENT_TIMEOUT_MS", 15_000),
        lock_timeout_ms=env.integer("DATABASE_LOCK_TIMEOUT_MS", 5_000),
        # Disable it behind a transaction-level connection pooler that does not support prepared statements.
        prepare=env.boolean("DATABASE_PREPARED_STATEMENTS", True),
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.url("REDIS_URL", ("redis://", "rediss://", "unix://"))
CACHES: dict[str, dict[str, Any]] = {
    "default": (
        {
            "BACKEND": "relayer_service.database.caches.FailOpenRedisCache",
            "LOCATION": REDIS_URL,
            "OPTIONS": {"socket_connect_timeout": 0.5, "socket_timeout": 0.5, "health_check_interval": 30},
        }
        if REDIS_URL
        else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}}
    )
}

# Task queue: Redis if it is configured, else PostgreSQL, else a separate SQLite file.
TASK_QUEUE_URL = env.text("TASK_QUEUE_URL") or REDIS_URL or DATABASE_URL or f"sqlite:{DATA_DIR}/tasks.sqlite3"

# Extensions of the contract: none by default, all in the local profile.
EXTENSIONS = env.choices("EXTENSIONS", ",".join(extensions.BUILT) if LOCAL else "", extensions.BUILT)
# Whether the extension `lifecycle` accepts and shows the names that OpenZeppelin Relayer has for signer types.
SIGNER_TYPE_ALIASES = env.boolean("SIGNER_TYPE_ALIASES", False)

# Limits.
PAGINATION_MAX_PER_PAGE = env.integer("PAGINATION_MAX_PER_PAGE", 1000, minimum=1)
MAX_REQUEST_BYTES = env.integer("MAX_REQUEST_BYTES", 1_048_576, minimum=1)
# Uploaded keys are never written to temporary files.
DATA_UPLOAD_MAX_MEMORY_SIZE = FILE_UPLOAD_MAX_MEMORY_SIZE = MAX_REQUEST_BYTES
ERROR_DETAILS = env.boolean("ERROR_DETAILS", True)
RATE_LIMIT_LIST_RELAYERS = env.rate("RATE_LIMIT_LIST_RELAYERS", "100/s")
RATE_LIMIT_RPC = env.rate("RATE_LIMIT_RPC", "100/s")
RATE_LIMIT_SEND = env.rate("RATE_LIMIT_SEND", "1000/s")
RATELIMIT_FAIL_OPEN = True

# The backend of each signer type; replace a path to use a custom one.
SIGNER_BACKENDS = {
    "plain": "signers.backends.local.Local",
    "provider_a_kms": "signers.backends.aws_kms.AwsKms",
    "provider_b_kms": "signers.backends.google_kms.GoogleKms",
    "provider_c": "signers.backends.vault.VaultKv",
    "provider_c_transit": "signers.backends.vault.VaultTransit",
    "provider_d": "signers.backends.turnkey.Turnkey",
    "provider_e": "signers.backends.coinbase_cdp.CoinbaseCdp",
}

# The retry schedule of webhooks: seconds before each attempt, as in Standard Webhooks; over three days in total.
WEBHOOK_SCHEDULE = env.integers(
    "WEBHOOK_SCHEDULE", "0,5,300,1800,7200,18000,36000,50400,72000,86400", maximum=30 * 24 * 60 * 60
)
# The limit includes connecting and reading the response.
WEBHOOK_TIMEOUT_SECONDS = env.integer("WEBHOOK_TIMEOUT_SECONDS", 15, minimum=1)
# The mail server of webhooks by e-mail; in the local profile, messages are printed if there is none.
MAIL_SERVER = urlsplit(env.url("EMAIL_URL", ("smtp://", "smtp+starttls://", "smtps://")))
EMAIL_HOST = MAIL_SERVER.hostname or ""
EMAIL_USE_TLS, EMAIL_USE_SSL = MAIL_SERVER.scheme == "smtp+starttls", MAIL_SERVER.scheme == "smtps"
EMAIL_PORT = MAIL_SERVER.port or {"smtps": 465, "smtp+starttls": 587}.get(MAIL_SERVER.scheme, 25)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = unquote(MAIL_SERVER.username or ""), unquote(MAIL_SERVER.password or "")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST or not LOCAL else 'console'}.EmailBackend"
# Seconds for each step of a message; less than WEBHOOK_TIMEOUT_SECONDS, which applies to the whole.
EMAIL_TIMEOUT = 10
EMAIL_SUBJECT_PREFIX = "[Relayers]"
DEFAULT_FROM_EMAIL = dict(parse_qsl(MAIL_SERVER.query)).get("from", "relayers@localhost")
# Private networks that webhooks may be sent to.
WEBHOOK_ALLOWED_PRIVATE_NETWORKS = env.networks("WEBHOOK_ALLOWED_PRIVATE_NETWORKS", "127.0.0.0/8,::1" if LOCAL else "")
# Days to keep a finished delivery after its last attempt; 0 keeps it forever.
DELIVERIES_KEEP_DAYS = env.integer("DELIVERIES_KEEP_DAYS", 90, maximum=36_500)

# A JSON file of networks that are added to `chain/networks.json`, or replace its networks by name.
NETWORKS_FILE = env.text("NETWORKS_FILE")
# Private and reserved networks that nodes and signer servers may be in: all, as they often run next to the service.
# Cloud metadata services are never allowed.
NODE_AND_SIGNER_PRIVATE_NETWORKS = env.networks("NODE_AND_SIGNER_PRIVATE_NETWORKS", "0.0.0.0/0,::/0")
# How often each relayer is checked.
HEALTH_CHECK_SECONDS = env.integer("HEALTH_CHECK_SECONDS", 60, minimum=1)

# Days to keep an entry of the audit log; 0 keeps it forever.
AUDIT_KEEP_DAYS = env.integer("AUDIT_KEEP_DAYS", 365, maximum=36_500)

# The sections of a fleet file, in order: an entry may refer to entries of earlier sections.
FLEET_SECTIONS = [
    "signers.fleet.SignerSection",
    "notifications.fleet.NotificationSection",
    "relayers.fleet.RelayerSection",
    "rpc.fleet.FeeTokenSection",
]

# Jobs: bulk actions of staff that the worker runs.
JOB_KINDS = {
    "check_relayers": "relayers.tasks.CheckRelayers",
    "pause_relayers": "relayers.jobs.kinds.PauseRelayers",
    "resume_relayers": "relayers.jobs.kinds.ResumeRelayers",
    "edit_relayers": "relayers.jobs.kinds.EditRelayers",
    "undo_relayer_edit": "relayers.jobs.kinds.UndoEdit",
    "verify_signers": "signers.jobs.VerifySigners",
    "send_test_events": "notifications.jobs.SendTestEvents",
    "replay_deliveries": "notifications.jobs.ReplayDeliveries",
    "retry_deliveries": "notifications.jobs.RetryDeliveries",
    "cancel_transactions": "transactions.jobs.CancelTransactions",
    "speed_up_transactions": "transactions.jobs.SpeedUpTransactions",
    "resend_transactions": "transactions.jobs.ResendTransactions",
}

# Transactions that one relayer can have queued, without a nonce; more are refused.
TRANSACTION_QUEUE_LIMIT = env.integer("TRANSACTION_QUEUE_LIMIT", 1_000, minimum=1)
# Bytes that one token can store per day with the transactions it requests; 0 is unlimited.
TRANSACTION_BYTES_PER_DAY = env.integer("TRANSACTION_BYTES_PER_DAY", 10 * 1024**3)
# Hours until a transaction expires that has no `valid_until`.
TRANSACTION_VALID_HOURS = env.integer("TRANSACTION_VALID_HOURS", 8, minimum=1, maximum=8_760)
# Days to keep a transaction in a final status; 0 keeps it forever.
TRANSACTIONS_KEEP_DAYS = env.integer("TRANSACTIONS_KEEP_DAYS", 0, maximum=36_500)
# How long the accounts of a killed worker wait for another one.
LANE_LEASE_SECONDS = env.integer("LANE_LEASE_SECONDS", 30, minimum=1)
# The price of a transaction is never raised above this multiple of the market.
FEE_CEILING_MULTIPLE = env.integer("FEE_CEILING_MULTIPLE", 5, minimum=2)

# Whether a numeric JSON-RPC id is returned as a string, as in the contract, or as it was sent.
RPC_ID_AS_STRING = env.boolean("RPC_ID_AS_STRING", True)

# Apps with routes under /api/v1/ (their `urls`), each after those that it builds on.
RESOURCES = ["tokens", "signers", "notifications", "relayers", "transactions", "rpc"]
INSTALLED_APPS = [
    "relayer_service",
    # This configuration of the theme has no admin site.
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "relayer_service.console.site.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "spending",
    *RESOURCES,
    "incidents",
]

MIDDLEWARE = [
    "relayer_service.api.middleware.ApiMiddleware",
    "relayer_service.api.middleware.RequestMiddleware",
    "relayer_service.api.middleware.HttpsOnlyMiddleware",
    "tokens.middleware.TokenUseMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "relayer_service.console.middleware.WhiteNoiseMiddleware",
    "relayer_service.console.middleware.CSPMiddleware",
    "relayer_service.health.views.CommonMiddleware",
    "relayer_service.console.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "relayer_service.console.middleware.AuthenticationMiddleware",
    "relayer_service.console.middleware.TimeZoneMiddleware",
    "relayer_service.console.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "relayer_service.urls"
WSGI_APPLICATION = "relayer_service.wsgi.application"
APPEND_SLASH = False
CSRF_FAILURE_VIEW = "relayer_service.console.errors.csrf_failure"
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"
AUTHENTICATION_BACKENDS = ["relayer_service.sign_in.backends.SecondFactorBackend"]

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

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = "relayer_service.formats"

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tokens.authentication.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "relayer_service.api.permissions.HasScope",
        "relayer_service.api.permissions.IsWithinLimits",
        "relayer_service.api.permissions.IsAllowedRelayer",
    ],
    "DEFAULT_RENDERER_CLASSES": ["relayer_service.api.renderers.EnvelopeRenderer"],
    "DEFAULT_PARSER_CLASSES": ["relayer_service.api.parsers.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "relayer_service.api.renderers.JSONNegotiation",
    "DEFAULT_PAGINATION_CLASS": "relayer_service.api.pagination.TablePagination",
    "DEFAULT_FILTER_BACKENDS": ["relayer_service.api.filters.ListFilters"],
    "DEFAULT_SCHEMA_CLASS": "relayer_service.api.schema.openapi.ApiSchema",
    "EXCEPTION_HANDLER": "relayer_service.api.exceptions.handle",
    "UNAUTHENTICATED_USER": None,
}

# The OpenAPI document and the pages that show it.
SPECTACULAR_SETTINGS = {
    "TITLE": "Relayer Management Service",
    # Generators give their packages this version, so that it must be one that package managers accept.
    "VERSION": __version__,
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": (
        "Manage signers, notifications and relayers, and make JSON-RPC calls through a relayer.\n\n"
        "All paths start with `/api/v1`. The version of this document is that of the software that serves it.\n\n"
        "Send `Authorization: Bearer <ACCESS_TOKEN>` with every request. Every response except that of the "
        "JSON-RPC call is a JSON envelope."
    ),
    "CONTACT": {"name": "The maintainers of the Relayer Management Service"},
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "SERVERS": [{"url": "/", "description": "This service"}],
    "SERVE_PUBLIC": True,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": True,
        "defaultModelsExpandDepth": 0,
        "displayRequestDuration": True,
    },
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "PREPROCESSING_HOOKS": ["relayer_service.api.schema.openapi.keep_api_paths"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "signers.schema.add_components",
        "relayer_service.api.schema.health.add_paths",
        "notifications.schema.webhooks.add_webhooks",
        "relayer_service.api.schema.openapi.finish",
    ],
    "ENUM_NAME_OVERRIDES": {
        "DeliveryState": "notifications.models.Delivery.State",
        "JobKindEnum": "relayer_service.api.jobs.KINDS",
        "JobState": "relayer_service.jobs.models.Job.State",
    },
}
UNFOLD = theme.UNFOLD

# Logs: one JSON object per line in production, readable lines in a terminal.
LOGGING = logs.configuration(
    level=env.choice("LOG_LEVEL", "INFO", {"DEBUG", "INFO", "WARNING", "ERROR"}),
    style=env.choice("LOG_FORMAT", "text" if LOCAL else "json", {"json", "text"}),
)
