"""The sessions of a user: listed without their keys, and ended."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.relayer_service.sign_in.signing_in import PASSWORD, recorded, sign_in

ACCOUNT = "/admin/account/"


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


def signed_in(address: str) -> Client:
    client = Client(HTTP_USER_AGENT=f"<b>Browser</b> at {address}")
    sign_in("olga", address=address, client=client)
    return client


def shown(page: Any) -> list[tuple[str, bool]]:
    return sorted((each.address, each.is_current) for each in page.context["sessions"])


def test_own_sessions_are_listed_and_ended(olga: User, client: Client) -> None:
    here, there, away = (signed_in(f"192.0.2.{number}") for number in (1, 2, 3))
    sign_in("olga", "wrong", client=client)
    page = here.get(ACCOUNT)
    assert shown(page) == [("192.0.2.1", True), ("192.0.2.2", False), ("192.0.2.3", False)]
    assert "&lt;b&gt;Browser&lt;/b&gt; at 192.0.2.2" in page.text
    assert str(there.session.session_key) not in page.text
    (name,) = (each.name for each in page.context["sessions"] if each.address == "192.0.2.2")
    here.post(ACCOUNT, {"end": name})
    assert [each.get(ACCOUNT).status_code for each in (here, there, away)] == [200, 302, 200]
    here.post(ACCOUNT, {"end": ""})
    assert [each.get(ACCOUNT).status_code for each in (here, away)] == [200, 302]
    assert [entry[3] for entry in recorded()][-2:] == [
        "Ended the session from 192.0.2.2",
        "Ended the session from 192.0.2.3",
    ]


def test_owners_end_the_sessions_of_those_whom_they_may_change(olga: User, admin_client: Client) -> None:
    there, page = signed_in("192.0.2.2"), f"/admin/auth/user/{olga.pk}/sessions/"
    assert shown(admin_client.get(page)) == [("192.0.2.2", False)]
    assert admin_client.post(page, {"end": "0123456789abcdef"}).status_code == 302
    assert there.get(ACCOUNT).status_code == 200
    admin_client.post(page, {"end": ""})
    assert there.get(ACCOUNT).status_code == 302
    assert admin_client.get(ACCOUNT).status_code == 200


def test_sessions_of_an_earlier_password_and_of_others_are_not_listed(olga: User, admin_client: Client) -> None:
    signed_in("192.0.2.2")
    olga.set_password("another-password")
    olga.save()
    assert shown(admin_client.get(f"/admin/auth/user/{olga.pk}/sessions/")) == []
