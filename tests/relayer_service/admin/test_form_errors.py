"""A form that was not saved: its errors above the page, each with a link to its field."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from tests.relayers import factories
from tests.relayers.admin_pages import change, fields

pytestmark = pytest.mark.django_db

SOURCES = {"sources-TOTAL_FORMS": "2", "sources-INITIAL_FORMS": "0"}
# By path of the pages that add something, the title and the field that is required first.
PAGES = {
    "auth/group": ("Add group", "Name"),
    "auth/user": ("Add user", "Username"),
    "incidents/alertroute": ("Add alert route", "ID"),
    "notifications/notification": ("Add webhook", "ID"),
    "relayers/relayer": ("Add relayer", "ID"),
    "rpc/feetoken": ("Add fee token", "Network"),
    "signers/signer": ("Add signer", "ID"),
    "tokens/accesstoken": ("Add access token", "Name"),
}


def summary(page: Any) -> list[tuple[str, str]]:
    """The errors above the page, each with the id of the element that its link leads to, which must be there once."""
    text = page.content.decode()
    above_the_form = text.partition('id="content-main"')[2].partition("<form")[0]
    found = []
    for line in re.findall(r"<li>(.*?)</li>", above_the_form, re.DOTALL):
        target = "".join(re.findall('href="#([^"]*)"', line))
        assert not target or text.count(f' id="{target}"') == 1, target
        found.append((target, unescape(re.sub("<[^>]*>", "", line)).strip()))
    return found


def test_every_add_page_has_a_heading_and_reports_errors(
    rf: RequestFactory, admin_client: Client, admin_user: User
) -> None:
    request = rf.get("/")
    request.user = admin_user
    adding = [each for each in admin.site._registry.values() if each.has_add_permission(request)]
    assert {str(each.opts).replace(".", "/") for each in adding} == PAGES.keys()
    for path, (title, field) in PAGES.items():
        page: Any = admin_client.post(f"/admin/{path}/add/", SOURCES | {"sources-TOTAL_FORMS": "0"})
        assert re.findall(r'<span class="[^"]*title-last">(.*?)</span>', page.text, re.DOTALL) == [title]
        target, text = summary(page)[0]
        assert text == f"{field}: This field is required."
        # The field itself is marked too.
        (tag,) = [tag for tag in re.findall(r"<[^>]*>", page.text) if f' id="{target}"' in tag]
        assert 'aria-invalid="true"' in tag


def test_the_errors_of_a_relayer_are_above_its_panels_in_the_order_of_its_fields(admin_client: Client) -> None:
    relayer = factories.relayer()
    opened = admin_client.get(change(relayer))
    assert "data-form-errors" not in opened.content.decode()
    wrong = {"rpc_urls-0-url": "ftp://a", "policy_gas_price_cap": "x", "name": "", "signer": "999"}
    page = admin_client.post(change(relayer), fields(opened) | wrong)
    assert "Not saved: 4 errors" in page.content.decode()
    assert summary(page) == [
        ("id_name", "Name: This field is required."),
        ("id_signer", "Signer: Select a valid choice. That choice is not one of the available choices."),
        ("id_rpc_urls", "RPC URLs: Correct the marked rows."),
        ("id_policy_gas_price_cap", f"Gas price cap: a whole number from 0 to {2**128 - 1} is required"),
    ]


def test_the_errors_of_rows_below_a_form_name_the_row(admin_client: Client) -> None:
    form = {"network": "sepolia", "symbol": "USDC", "address": factories.ADDRESS, "max_spread_bps": "1"}
    rows = {"sources-0-kind": "fixed", "sources-1-kind": "chainlink_native", "sources-1-feed": "0x1"}
    found = summary(admin_client.post("/admin/rpc/feetoken/add/", form | SOURCES | rows))
    assert found[0] == ("id_margin_bps", "Margin: This field is required.")
    assert ("id_sources-0-rate_text", "Price source 1, Rate: required for this kind of source") in found
    assert [target for target, _ in found if target.startswith("id_sources-1-")]


def test_an_error_of_the_whole_form_is_shown_once_and_without_a_link(admin_client: Client) -> None:
    signer = factories.signer()
    signer.type = "provider_c"
    signer.set_config({"address": "http://a", "key_name": "k", "role_id": "r", "secret_id": "s"})
    signer.save()
    form = {"provider_c__address": "http://b", "provider_c__key_name": "k"}
    page = admin_client.post(f"/admin/signers/signer/{signer.pk}/change/", form)
    text = "The address has changed. Enter all secrets again."
    assert ("", text) in summary(page)
    assert page.content.decode().count(text) == 1


@pytest.mark.parametrize("path", ["password_change/", "auth/user/{}/password/"])
def test_the_pages_of_passwords_have_the_summary_too(admin_client: Client, admin_user: User, path: str) -> None:
    page = admin_client.post(f"/admin/{path.format(admin_user.pk)}", {"usable_password": "true"})
    found = re.findall('href="#(id_[^"]*)"', page.content.decode())
    assert found[-1] in {"id_new_password2", "id_password2"}
    assert "Please correct" not in page.content.decode()
