"""Panels: apps declare them for the pages of any resource."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client

from relayer_service.console.panels import Panel, declared_panels
from relayers.models import Relayer
from tokens.models import AccessToken
from tokens.writes import issue

PATH = "tests.relayer_service.admin.test_panels"


class Shown(Panel):
    template = "admin/post_button.html"

    class Media:
        js = ["relayers/admin.js"]

    def context(self, request: HttpRequest, token: Any) -> dict[str, Any]:
        return {"url": "/somewhere", "text": f"Button of {token.name}"}


class Hidden(Shown):
    def may_view(self, request: HttpRequest) -> bool:
        return False


def names(panels: list[Panel]) -> list[str]:
    return [f"{type(panel).__module__}.{type(panel).__name__}" for panel in panels]


def test_panels_come_from_all_apps_in_the_order_of_these() -> None:
    assert names(declared_panels(admin.site.get_model_admin(Relayer))) == [
        "relayers.console.panels.Status",
        "relayers.console.balance.Balance",
        "relayers.console.panels.TimeLine",
        "transactions.console.stuck.panel.StuckPanel",
        "transactions.console.panels.RelayerLane",
        "transactions.console.top_ups.RelayerFunding",
        "transactions.console.panels.RelayerGas",
        "rpc.console.try_it.TryIt",
        "rpc.console.panels.Calls",
        "incidents.console.panels.RelayerIncidents",
    ]


@pytest.fixture
def token(db: None, monkeypatch: pytest.MonkeyPatch) -> AccessToken:
    """A token whose page has two panels of another app, one of them for nobody."""
    declared = {"tokens.AccessToken": [f"{PATH}.Shown", f"{PATH}.Hidden"]}
    monkeypatch.setattr(apps.get_app_config("signers"), "admin_panels", declared, raising=False)
    model_admin = admin.site.get_model_admin(AccessToken)
    monkeypatch.setattr(model_admin, "panels", declared_panels(model_admin))
    return issue(name="ci", user=User.objects.create_user("olga"))[0]


def test_a_panel_is_on_the_page_of_an_object_with_its_media(admin_client: Client, token: AccessToken) -> None:
    page = admin_client.get(f"/admin/tokens/accesstoken/{token.pk}/change/").content.decode()
    assert page.count("Button of ci") == 1
    assert "relayers/admin.js" in page
    assert "/somewhere" not in admin_client.get("/admin/tokens/accesstoken/add/").content.decode()
