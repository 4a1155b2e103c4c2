"""One form of dates on all pages, with UTC."""

import re
from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import strip_tags

from notifications.models import Notification
from relayer_service.models import AuditEntry
from signers.models import Signer
from tests.relayers import factories
from tokens.models import AccessToken
from tokens.writes import issue

NIGHT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE, SECOND = "2026-01-02 03:04 UTC", "2026-01-02 03:04:05 UTC"
OTHER_FORMS = re.compile(r"\bJan\b|\bJanuary\b|[ap]\.m\.|midnight|noon|2026-01-02(?! 03:04(:05)? UTC)")


def moments(client: Client, path: str) -> list[str]:
    """Return the moments that a page shows, each once, and whatever is a moment in another form."""
    page = client.get(path)
    assert page.status_code == 200
    text = strip_tags(page.content.decode())
    return [*sorted(set(re.findall(r"2026-01-02 [\d:]+ UTC", text))), *OTHER_FORMS.findall(text)]


def test_every_page_shows_moments_in_one_form(admin_client: Client, admin_user: User) -> None:
    relayer = factories.relayer(notification=factories.notification(), checked_at=NIGHT, created_at=NIGHT)
    assert relayer.notification
    token = issue(name="Wallet", user=admin_user, last_used_at=NIGHT)[0]
    AccessToken.objects.update(created_at=NIGHT)
    Signer.objects.update(created_at=NIGHT, verified_at=NIGHT)
    Notification.objects.update(created_at=NIGHT, failing_since=NIGHT)
    AuditEntry.objects.update(at=NIGHT)
    User.objects.update(last_login=NIGHT, date_joined=NIGHT)
    entry = AuditEntry.objects.for_row(token).get()
    paths = {
        f"/admin/relayers/relayer/{relayer.pk}/change/": [MINUTE],
        "/admin/signers/signer/": [MINUTE],
        f"/admin/signers/signer/{relayer.signer.pk}/change/": [MINUTE],
        "/admin/notifications/notification/": [MINUTE],
        f"/admin/notifications/notification/{relayer.notification.pk}/change/": [MINUTE],
        "/admin/tokens/accesstoken/": [MINUTE],
        f"/admin/tokens/accesstoken/{token.pk}/change/": [MINUTE],
        f"/admin/tokens/accesstoken/{token.pk}/history/": [SECOND],
        "/admin/relayer_service/auditentry/": [SECOND],
        f"/admin/relayer_service/auditentry/{entry.pk}/change/": [SECOND],
    }
    assert {path: moments(admin_client, path) for path in paths} == paths
    # How long ago something was has the moment as its title.
    ago = f'<time datetime="2026-01-02T03:04:05+00:00" title="{SECOND}">'
    assert ago in admin_client.get("/admin/tokens/accesstoken/").content.decode()


def test_pages_have_the_time_zone_that_their_user_has_chosen(admin_client: Client, admin_user: User) -> None:
    entry = AuditEntry.objects.create(at=NIGHT, action="acted", object_type="auth.user", object_id="admin")
    assert admin_client.post("/admin/account/", {"time_zone": "Nowhere/At-all"}).status_code == 200
    assert admin_client.post("/admin/account/", {"time_zone": "Asia/Tokyo"}).status_code == 302
    AuditEntry.objects.exclude(pk=entry.pk).delete()
    page = admin_client.get("/admin/relayer_service/auditentry/")
    assert "2026-01-02 12:04" in page.text
    assert "JST" in page.text
    assert "UTC" not in strip_tags(page.text)
    values = {"name": "Wallet", "user": admin_user.pk, "enabled": "on", "scopes": ["read"]}
    form = admin_client.get("/admin/tokens/accesstoken/add/")
    assert "In the time zone Asia/Tokyo. If empty, it does not expire." in form.text
    admin_client.post(
        "/admin/tokens/accesstoken/add/", values | {"expires_at_0": "2030-01-02", "expires_at_1": "12:00"}
    )
    assert AccessToken.objects.get().expires_at == datetime(2030, 1, 2, 3, tzinfo=UTC)
    # Others, and threads that have served this user, keep theirs.
    other = Client()
    other.force_login(User.objects.create_superuser("other"))
    assert "2026-01-02 03:04:05 UTC" in strip_tags(other.get("/admin/relayer_service/auditentry/").text)
