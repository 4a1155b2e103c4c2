"""What staff can edit is in the audit log."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db.models import CharField, Model
from django.utils import timezone

from incidents.models import AlertRoute
from notifications.models import Notification
from relayer_service.audit.recording import snapshot
from relayer_service.models import Acknowledgement
from relayers.models import Relayer
from relayers.models.nodes import NodeOutage
from rpc.models import FeeToken, PriceSource
from signers.models import Signer
from tests.relayers import factories
from tests.sample.models import Item
from tokens.models import AccessToken
from tokens.writes import issue
from transactions.models import Transaction

pytestmark = pytest.mark.django_db

# What the forms of the admin set besides the editable columns.
SET_BY_FORMS: dict[type[Model], set[str]] = {
    Signer: {"config"},
    Notification: {"signing_key"},
    Relayer: {"custom_rpc_urls", "private_rpc_urls", "policies"},
    FeeToken: {"sources"},
}
# Editable fields that are not recorded, each with its reason.
IDENTIFIER = {"identifier": "it cannot be changed, and each entry has it as its object id"}
NOT_RECORDED: dict[type[Model], dict[str, str]] = {
    **dict.fromkeys([Signer, Notification, Item], IDENTIFIER),
    AlertRoute: {
        **IDENTIFIER,
        **dict.fromkeys(["quiet_from", "quiet_until", "time_zone"], "they are recorded as its quiet hours"),
    },
    Relayer: {**IDENTIFIER, "funding_relayer": "it is recorded as a part of its top-up"},
    Acknowledgement: dict.fromkeys(["cause", "title", "severe", "by", "at", "note"], "the entry has it otherwise"),
    NodeOutage: dict.fromkeys(["url", "until", "by", "reason"], "the entry has it otherwise"),
    PriceSource: {"token": "a source is recorded as a part of its fee token"},
    Transaction: {
        field.name: "staff cannot edit transactions, which have a time line"
        for field in Transaction._meta.concrete_fields
        if field.editable and not field.primary_key and field.name not in {"status", "nonce"}
    },
    User: {"last_login": "each sign-in sets it", "date_joined": "it grants nothing"},
}


def examples() -> dict[type[Model], list[Any]]:
    """Rows of each model that is recorded, which together have all that can be recorded of one."""
    user = User.objects.create_user("olga")
    relayer = factories.relayer(notification=factories.notification(), policies={"min_balance": 1})
    columns = [field for field in PriceSource._meta.concrete_fields if field.name != "token"]
    filled = {field.name: "1" if isinstance(field, CharField) else 1 for field in columns}
    return {
        Signer: [relayer.signer],
        Notification: [relayer.notification],
        AlertRoute: [AlertRoute(url="https://hooks.example.com/")],
        Relayer: [relayer],
        FeeToken: [FeeToken.objects.create(network="sepolia", symbol="USDC", address=factories.ADDRESS)],
        PriceSource: [PriceSource(**filled | {"kind": kind}) for kind in PriceSource.Kind],
        AccessToken: [issue(name="wallet", user=user)[0]],
        Transaction: [Transaction()],
        Acknowledgement: [Acknowledgement()],
        NodeOutage: [NodeOutage(until=timezone.now())],
        Item: [Item(identifier="item-1")],
        User: [user],
        Group: [Group.objects.create(name="operators")],
    }


def editable(model: type[Model]) -> set[str]:
    fields = [*model._meta.concrete_fields, *model._meta.many_to_many]
    names = {field.name for field in fields if field.editable and not field.primary_key}
    return names | SET_BY_FORMS.get(model, set())


def recorded(row: Any) -> set[str]:
    """The names in an entry; `config.key` is a part of `config`."""
    return {name.partition(".")[0] for name in snapshot(row)}


def is_recorded(field: str, names: set[str]) -> bool:
    return bool(names & {field, f"{field}_id", field.removesuffix("_text")})


def test_every_field_that_staff_can_edit_is_recorded_or_has_a_reason_not_to_be() -> None:
    rows = examples()
    assert {*rows} == {model for model in apps.get_models() if hasattr(model, "audited") or model in snapshot.registry}
    missing = {}
    for model, of_model in rows.items():
        names = set[str]().union(*map(recorded, of_model))
        missing[model] = {field for field in editable(model) if not is_recorded(field, names)}
    assert missing == {model: {*NOT_RECORDED.get(model, {})} for model in rows}
