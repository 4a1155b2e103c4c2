"""Deleting signers in the admin: one that is in use is kept, and says at once by what, and what to do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relayer_service.console.base import USED_CONCURRENTLY
from relayers.models import Relayer
from signers.models import Signer
from tests.notifications.admin_pages import rows, staff_who_may
from tests.relayers import factories

pytestmark = pytest.mark.django_db

LIST = "/admin/signers/signer/"


def from_the_page(client: Client, *signers: Signer, **fields: str) -> Any:
    return client.post(f"{LIST}{signers[0].pk}/delete/", fields)


def from_the_list(client: Client, *signers: Signer, **fields: str) -> Any:
    return client.post(
        LIST, {"action": "delete_selected", "_selected_action": [each.pk for each in signers], **fields}
    )


both_ways = pytest.mark.parametrize("delete", [from_the_page, from_the_list])


def add_relayers(signer: Signer, first: int, last: int) -> None:
    Relayer.objects.bulk_create(
        Relayer(identifier=f"r-{number}", name="R", network="sepolia", signer=signer) for number in range(first, last)
    )


def plain(texts: list[str]) -> list[str]:
    return [re.sub("<[^>]*>", "", str(text)) for text in texts]


@both_ways
def test_a_signer_in_use_is_kept_and_names_the_first_ten_with_what_to_do(admin_client: Client, delete: Any) -> None:
    signer = factories.signer()
    add_relayers(signer, 0, 12)
    page = delete(admin_client, signer, post="yes")
    names = ", ".join(f"r-{number}" for number in range(10))
    used = f"signer-1 is used by 12 relayers: {names} and 2 more."
    advice = "To delete the signer, change or delete the relayers first: list the relayers."
    assert plain(page.context["protected"]) == [f"{used} {advice}"]
    assert "Cannot be deleted yet" in page.content.decode()
    assert Signer.objects.exists()


def test_the_link_leads_to_the_relayers_of_the_signer(admin_client: Client) -> None:
    signer, other = factories.signer(), factories.signer("other")
    add_relayers(signer, 0, 2)
    add_relayers(other, 2, 3)
    page = from_the_page(admin_client, signer).content.decode()
    (url,) = re.findall(r'href="([^"]*)">list the relayers', page)
    assert sorted(row[1] for row in rows(admin_client.get(url))) == ["r-0", "r-1"]
    assert admin_client.get("/admin/relayers/relayer/?signer__sequence__exact=" + "9" * 30).status_code == 400


@both_ways
def test_the_page_costs_the_same_for_many_relayers_as_for_few(admin_client: Client, delete: Any) -> None:
    signer = factories.signer()
    add_relayers(signer, 0, 11)
    delete(admin_client, signer)
    with CaptureQueriesContext(connection) as few:
        small = delete(admin_client, signer)
    add_relayers(signer, 11, 1_000)
    with CaptureQueriesContext(connection) as many:
        large = delete(admin_client, signer)
    assert len(many) == len(few)
    assert len(large.content) - len(small.content) < 100


def test_who_may_not_see_relayers_sees_how_many_there_are(client: Client) -> None:
    signer = factories.signer()
    add_relayers(signer, 0, 2)
    page = from_the_page(staff_who_may(client, "view_signer", "delete_signer"), signer)
    advice = "To delete the signer, change or delete the relayers first."
    assert page.context["protected"] == [f"signer-1 is used by 2 relayers. {advice}"]


@both_ways
def test_a_signer_that_is_used_meanwhile_is_kept(
    admin_client: Client, delete: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = factories.signer()
    add_relayers(signer, 0, 1)
    monkeypatch.setattr("signers.admin.in_use", lambda signers, **options: [])
    page = delete(admin_client, signer, post="yes")
    assert USED_CONCURRENTLY in [str(message) for message in get_messages(page.wsgi_request)]
    assert Signer.objects.exists()


@both_ways
def test_a_signer_that_nothing_uses_is_deleted(admin_client: Client, delete: Any) -> None:
    delete(admin_client, factories.signer(), post="yes")
    assert not Signer.objects.exists()
