"""A real browser on the real web server.

`SCREENSHOTS=docs/images pytest tests/browser` writes the pictures of the documentation anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.db.models import Model
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from incidents.models import AlertMessage, AlertRoute, Incident
from notifications.models import Delivery, DeliveryHour, Notification, SkippedEventCount
from relayer_service.models import Acknowledgement, AuditEntry, CallCount, EncryptionKey, Job, PeriodicRun, RowDelta
from relayer_service.roles import ROLES
from relayers.models import Relayer
from relayers.models.nodes import NodeOutage
from rpc.models import FeeToken
from signers.models import Signer
from spending.models import SpendingPolicy
from tests import processes
from tests.api import WireApi
from tests.sample.models import Item
from tokens.models import AccessToken, TokenUse
from tokens.writes import issue
from transactions.models import ChainWatch, Lane, Transaction

# The first has no window to draw, and takes half of the processor's time.
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
CHROMIUM = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1280, "height": 800}
# Milliseconds, enough for a busy machine: what does not come at all is a failure after it.
PATIENCE = 60_000
# Whatever tests and pages write, those first that refer to others.
MODELS: list[type[Model]] = [
    *(
        AlertMessage,
        AlertRoute,
        Incident,
        Acknowledgement,
        AuditEntry,
        Job,
        Session,
        PeriodicRun,
        Item,
        FeeToken,
        Transaction,
        Lane,
        ChainWatch,
    ),
    *(Relayer, Signer, Delivery, Notification),
    *(CallCount, NodeOutage, DeliveryHour, SkippedEventCount, RowDelta, TokenUse, AccessToken, SpendingPolicy, User),
]

FOLDER = Path(__file__).parent
TakeScreenshot = Callable[[Page, str], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Walks through pages take long, and show what views answer that other tests run on both engines."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.one_engine)


@pytest.fixture(scope="package")
def site_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site") / "log"


@pytest.fixture(scope="package")
def static_files() -> None:
    call_command("collectstatic", interactive=False, verbosity=0)


@pytest.fixture(scope="package")
def site(static_files: None, django_db_setup: None, django_db_blocker: Any, site_log: Path) -> Iterator[str]:
    """The address of a web server that has the collected static files, and the pages of all extensions."""
    with django_db_blocker.unblock():
        with processes.web(site_log, EXTENSIONS="transactions") as port:
            yield f"http://127.0.0.1:{port}"
        # Workers that tests start write one.
        EncryptionKey.objects.all().delete()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"there is no browser: none of {', '.join(BROWSERS)} was found")
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright keeps an event loop in this thread, in which Django would refuse to touch the database.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM, timeout=3 * PATIENCE)
        yield browser
        browser.close()


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database as the web server sees it; what a test leaves in it is deleted.

    pytest-django's own fixture empties all tables, which would renew the content types that the server remembers.
    """
    with django_db_blocker.unblock():
        yield
        for model in MODELS:
            model._default_manager.all().delete()
        # Those of the roles belong to the schema.
        Group.objects.exclude(name__in=ROLES).delete()
        connection.close()


@pytest.fixture
def staff(transactional_db: None) -> User:
    return User.objects.create_superuser("olga", password="a-password-for-tests")


@pytest.fixture
def token(staff: User) -> str:
    return issue(name="tests", user=staff)[1]


@pytest.fixture
def context(browser: Browser, site: str, transactional_db: None) -> Iterator[BrowserContext]:
    """A browser of nobody; at the end no page of it may have had an error or asked another host.

    It closes before the rows are deleted: a page that refreshes itself would be signed out.
    """
    context = browser.new_context(base_url=site, viewport=WIDE, color_scheme="light")  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    faults: list[str] = []
    own = urlsplit(site).netloc

    def look(message: Any) -> None:
        # A JSON page cannot name an icon, so that the browser looks for the one of old.
        if message.type in {"error", "warning"} and not message.location["url"].endswith("/favicon.ico"):
            faults.append(f"{message.type} on {message.page.url}: {message.text} ({message.location['url']})")

    def check_host(request: Any) -> None:
        url = urlsplit(request.url)
        if url.scheme not in {"data", "blob"} and url.netloc != own:
            faults.append(f"a request to another host: {request.url}")

    context.on("console", look)
    context.on("weberror", lambda error: faults.append(f"uncaught: {error.error}"))
    context.on("request", check_host)
    yield context
    context.close()
    assert faults == []


@pytest.fixture
def quiet_page(browser: Browser, site: str) -> Iterator[Page]:
    """A page of nobody that may have errors, such as an answer of 404."""
    with browser.new_context(base_url=site) as context:
        context.set_default_timeout(PATIENCE)
        yield context.new_page()


def add_session(context: BrowserContext, site: str, user: User) -> None:
    """Sign somebody in, on all pages of a browser."""
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": site}])


@pytest.fixture
def sign_in(context: BrowserContext, site: str) -> Callable[[User], Page]:
    def sign_in(user: User) -> Page:
        add_session(context, site, user)
        return context.new_page()

    return sign_in


@pytest.fixture
def page(sign_in: Callable[[User], Page], staff: User) -> Page:
    """A page of a superuser who has signed in."""
    return sign_in(staff)


@pytest.fixture
def port(site: str) -> int:
    port = urlsplit(site).port
    assert port
    return port


@pytest.fixture
def call(port: int) -> Callable[[str], int]:
    """Call the API with a token and return the status."""

    def call(token: str) -> int:
        return WireApi(token, port).get("/api/v1/items").status

    return call


def overflow(page: Page) -> int:
    """Return by how many pixels a page is wider than the screen."""
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width


@pytest.fixture
def take_screenshot() -> TakeScreenshot:
    folder = os.environ.get("SCREENSHOTS")

    def take(page: Page, name: str) -> None:
        if folder:
            page.mouse.move(0, 0)
            page.screenshot(path=Path(folder) / f"{name}.png")

    return take
