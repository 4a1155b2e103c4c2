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
