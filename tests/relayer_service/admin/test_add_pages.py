"""The add page of every resource: its title, and the errors of a save that failed."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from tests.relayer_service.admin.test_form_errors import summary

pytestmark = pytest.mark.django_db

# By path, the title and the field that is required first.
PAGES = {
    "auth/group": ("Add group", "Name"),
    "auth/user": ("Add user", "Username"),
    "notifications/notification": ("Add webhook", "ID"),
    "relayers/relayer": ("Add relayer", "ID"),
    "rpc/feetoken": ("Add fee token", "Network"),
    "signers/signer": ("Add signer", "ID"),
    "tokens/accesstoken": ("Add access token", "Name"),
}


def heading(page: Any) -> str:
    (found,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page.text, re.DOTALL)
    (title,) = re.findall(r'<span class="[^"]*title-last">(.*?)</span>', found, re.DOTALL)
    return unescape(title)


def test_every_page_that_adds_is_tested(rf: RequestFactory, admin_user: User) -> None:
    request = rf.get("/")
    request.user = admin_user
    adding = [each for each in admin.site._registry.values() if each.has_add_permission(request)]
    assert {str(each.opts).replace(".", "/") for each in adding} == PAGES.keys()


@pytest.mark.parametrize("path", PAGES)
def test_an_add_page_has_a_heading_and_reports_errors(admin_client: Client, path: str) -> None:
    title, field = PAGES[path]
    assert heading(admin_client.get(f"/admin/{path}/add/")) == title
    empty = {"sources-TOTAL_FORMS": "0", "sources-INITIAL_FORMS": "0"}
    page = admin_client.post(f"/admin/{path}/add/", empty)
    target, text = summary(page)[0]
    assert text == f"{field}: This field is required."
    # The field itself is marked too.
    (tag,) = [tag for tag in re.findall(r"<[^>]*>", page.text) if f' id="{target}"' in tag]
    assert 'aria-invalid="true"' in tag
