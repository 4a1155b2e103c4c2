"""The bodies with which programs create and change relayers: the rules are those of admin and fleet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError as ModelError
from drf_spectacular.utils import extend_schema_field
from rest_framework.exceptions import ValidationError

from chain.networks import closed, networks
from notifications.models import Notification
from relayer_service.api.exceptions import refusal
from relayer_service.api.parsers import WrittenFloat
from relayer_service.api.representation import RequestSerializer
from relayer_service.api.serializers import (
    BooleanField,
    ChoiceField,
    IntegerField,
    NewIdentifierField,
    ObjectField,
    StringField,
)
from relayer_service.audit.recording import snapshot
from relayer_service.background.tasks import push
from relayer_service.storage.clock import DatabaseNow
from relayer_service.storage.resources import new_identifier
from relayers.account import ask_address, ask_chain_ids, check_signer, choose_address, note_answer
from relayers.config import MAX_CHAIN_ID
from relayers.models import Relayer
from relayers.policies import EvmAddressField, EvmPolicies, EvmPoliciesPatch, merge_policies, validate_policies
from relayers.rpc_urls import RpcUrlsField
from relayers.serializers import RelayerSerializer
from relayers.states import write_paused
from relayers.tasks import check_relayers_now
from signers import signing
from signers.models import Signer

FIRST_EXPONENT = 1e21
UNKNOWN = "there is none with this id"
CHANGED = "the signer was changed meanwhile: try again"


@extend_schema_field(EvmPolicies)
class PoliciesField(ObjectField):
    """Policies, whose names and values depend on the network type.

    Clients that have no other numbers write an amount of 22 digits or more with an exponent: it is read exactly.
    """

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        return {name: exact(value) for name, value in super().to_internal_value(data).items()}


@extend_schema_field(EvmPoliciesPatch)
class PoliciesPatchField(PoliciesField):
    """Policies to change, and those to remove."""


def exact(value: Any) -> Any:
    """Return a number that was written with an exponent as the whole number that it is, and all else as it is."""
    if not isinstance(value, WrittenFloat) or value < FIRST_EXPONENT:
        return value
    written = Decimal(value.text)
    return int(written) if int(written) == written else value


class CreateRelayerSerializer(RequestSerializer):
    """A relayer to create. Its signer and its own nodes are asked before it is saved."""

    answer_class = RelayerSerializer

    id = NewIdentifierField()
    name = StringField(max_length=255)
    network = StringField(max_length=64, help_text="One of `GET /networks`, or another with `chain_id` and nodes.")
    network_type = ChoiceField(choices=Relayer.NetworkType.choices)
    chain_id = IntegerField(
        min_value=1, max_value=MAX_CHAIN_ID, required=False, help_text="Of a network that the service does not know."
    )
    address = EvmAddressField(required=False, help_text="Derived from the signer where it can give it.")
    signer_id = StringField()
    notification_id = StringField(required=False)
    paused = BooleanField()
    custom_rpc_urls = RpcUrlsField(required=False, help_text="Instead of the network's public nodes.")
    policies = PoliciesField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        self.warnings: list[str] = []
        relayer = Relayer(
            identifier=attrs.get("id", new_identifier()),
            name=attrs["name"],
            network=attrs["network"],
            network_type=attrs["network_type"],
            chain_id=attrs.get("chain_id"),
        )
        with faults_of_policies():
            relayer.policies = validate_policies(relayer.network_type, attrs.get("policies", {}))
        relayer.set_rpc_urls([dict(entry) for entry in attrs.get("custom_rpc_urls", [])])
        relayer.signer = referred(Signer, "signer_id", attrs["signer_id"])
        if "notification_id" in attrs:
            relayer.notification = referred(Notification, "notification_id", attrs["notification_id"])
        try:
            relayer.clean()
            check_signer(relayer.signer, relayer.network_type)
            found, warning = ask_address(relayer.signer)
            relayer.address = choose_address(found, attrs.get("address", ""))
        except ModelError as error:
            raise refusal(error) from None
        self.warnings += [warning] if warning else []
        self.signer_answer = warning
        if relayer.network in closed() and relayer.network not in networks():
            self.warnings.append(closed()[relayer.network])
        urls = [entry["url"] for entry in relayer.custom_rpc_urls or []]
        self.warnings += check_chains(ask_chain_ids(urls), relayer.expected_chain_id)
        return {"relayer": relayer, "paused": attrs["paused"]}

    def create(self, validated_data: dict[str, Any]) -> Relayer:
        relayer: Relayer = validated_data["relayer"]
        # Locked, so that they are still there when the relayer is, and the signer's key is the one that was asked.
        lock(Signer, "signer_id", relayer.signer.pk)
        if not signing.unchanged(relayer.signer).exists():
            raise ValidationError({"signer_id": [CHANGED]})
        if relayer.notification:
            lock(Notification, "notification_id", relayer.notification.pk)
        relayer.save(force_insert=True)
        note_answer(relayer.signer, self.signer_answer)
        write_paused([relayer], validated_data["paused"])
        push(check_relayers_now)
        return relayer


class UpdateRelayerSerializer(RequestSerializer):
    """What to change of a relayer, as a JSON Merge Patch: what is left out stays, null removes."""

    answer_class = RelayerSerializer

    name = StringField(required=False, max_length=255)
    paused = BooleanField(required=False)
    notification_id = StringField(required=False, allow_null=True)
    custom_rpc_urls = RpcUrlsField(required=False, allow_null=True, help_text="All of them: a list is replaced whole.")
    policies = PoliciesPatchField(
        required=False, allow_null=True, help_text="Merged by name: a policy that is null is removed."
    )

    def validate_custom_rpc_urls(self, value: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        # Asked before the row is locked: a node that hangs must not hold up other changes.
        self.chain_ids = ask_chain_ids([entry["url"] for entry in value or []])
        return value

    def update(self, instance: Relayer, validated_data: dict[str, Any]) -> Relayer:
        before, columns = snapshot(instance), {*self._put(instance, validated_data)}
        # What is as it was, and a pause, harm no check, and must not depend on what has become of a network.
        if snapshot(instance) != before:
            try:
                instance.clean()
            except ModelError as error:
                raise refusal(error) from None
            # A health check that is under way read the relayer as it was before, so it loses its lease.
            instance.due_at, instance.lease = DatabaseNow(), None
            instance.save(update_fields=columns | {"due_at", "lease"})
            push(check_relayers_now)
        if "paused" in validated_data:
            write_paused([instance], validated_data["paused"])
        return instance

    def _put(self, relayer: Relayer, values: dict[str, Any]) -> Iterator[str]:
        """Put values onto a relayer; yield their columns."""
        if "name" in values:
            relayer.name = values["name"]
            yield "name"
        if "notification_id" in values:
            identifier = values["notification_id"]
            relayer.notification = identifier and referred(Notification, "notification_id", identifier)
            if relayer.notification:
                lock(Notification, "notification_id", relayer.notification.pk)
            yield "notification"
        if "policies" in values:
            stored, patch = relayer.policies, values["policies"]
            with faults_of_policies():
                relayer.policies = {} if patch is None else merge_policies(relayer.network_type, stored, patch)
            yield "policies"
        if "custom_rpc_urls" in values:
            relayer.set_rpc_urls([dict(entry) for entry in values["custom_rpc_urls"] or []])
            self.warnings = check_chains(self.chain_ids, relayer.expected_chain_id)
            yield from ("custom_rpc_urls", "masked_rpc_urls")


def referred(model: Any, field: str, identifier: str) -> Any:
    row = model.objects.filter(identifier=identifier).first()
    if row is None:
        raise ValidationError({field: [UNKNOWN]})
    return row


def lock(model: Any, field: str, pk: int) -> None:
    """Lock a row that is about to be referred to, so that nobody deletes it meanwhile."""
    if not model.objects.select_for_update(no_key=True).filter(pk=pk).values_list("pk"):
        raise ValidationError({field: [UNKNOWN]})


@contextmanager
def faults_of_policies() -> Iterator[None]:
    """Name the field in the faults of policies."""
    try:
        yield
    except ValidationError as error:
        raise ValidationError({"policies": error.detail}) from None


def check_chains(found: Sequence[int | str], expected: int | None) -> list[str]:
    """Refuse nodes of another chain; return a warning for each that could not be asked."""
    wrong: dict[Any, Any] = {
        index: {"url": [f"this node is on chain {chain_id} instead of {expected}"]}
        for index, chain_id in enumerate(found)
        if not isinstance(chain_id, str) and chain_id != expected
    }
    if wrong:
        raise ValidationError({"custom_rpc_urls": wrong})
    return [
        f"custom_rpc_urls[{index}].url: the chain id of this node was not checked: {why}"
        for index, why in enumerate(found)
        if isinstance(why, str)
    ]
