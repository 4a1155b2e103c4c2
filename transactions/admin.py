"""The list of transactions, and a page for each: what was requested, signed and broadcast, and where it is now."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from chain.units import coins
from relayer_service.console.dates import exact
from relayer_service.console.lists.changelists import ResourceList
from relayer_service.console.lists.search import MANY
from relayer_service.console.references import is_key, link
from relayer_service.observability.tracing import trace_id
from transactions.console import formatting
from transactions.console.actions import RequestedActionAdmin
from transactions.console.bulk import BulkAdmin
from transactions.console.export_actions import ExportAdmin
from transactions.console.filters import (
    RELAYER,
    KindFilter,
    RelayerFilter,
    RelayerNetworkFilter,
    StatusFilter,
    TransactionList,
)
from transactions.console.lanes import LaneAdmin
from transactions.lanes.prices.pricing import gwei
from transactions.models import Attempt, Lane, Transaction
from transactions.records.list_payloads import LARGE_COLUMNS
from transactions.records.reasons import status_reason

HASH = re.compile(r"0x[0-9a-f]{64}", re.ASCII | re.IGNORECASE)
PAYLOAD = ["receiver", "shown_value", "shown_data", "requested_gas_limit", "requested_price"]
RECEIPT = ["block", "outcome", "shown_gas_used", "effective_price", "fee", "contract", "shown_revert_data"]
REQUEST = ["identifier", "shown_kind", "shown_requester", "shown_key", "trace", "accepted", "valid", "version"]
DEFERRED = [*LARGE_COLUMNS, "relayer__custom_rpc_urls", "relayer__private_rpc_urls", "relayer__health__balance_hours"]


admin.site.register(Lane, LaneAdmin)


@admin.register(Transaction)
class TransactionAdmin(BulkAdmin, ExportAdmin, RequestedActionAdmin):
    list_display = [
        "identifier",
        "sender",
        "shown_state",
        "network",
        "shown_nonce",
        "shown_receiver",
        "listed_value",
        "reason",
        "created",
    ]
    list_filter = [StatusFilter, ("relayer", RelayerFilter), RelayerNetworkFilter, KindFilter]
    list_fullwidth = True
    search_fields = ["identifier", "to"]
    search_help_text = "The start of an ID or receiver, the full hash of any attempt, or a nonce"
    sort_orders = {"created": "sequence"}
    allowed_lookups = {"status", "network", "kind"}
    allowed_keys = {RELAYER}
    readonly_fields = [*PAYLOAD, *RECEIPT, *REQUEST]

    class Media:
        css = {"all": ["relayers/admin.css", "transactions/admin.css"]}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ResourceList]:
        return TransactionList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Transaction]:
        # Joined, as the relayer may be deleted: its key is kept.
        rows: QuerySet[Transaction] = super().get_queryset(request)
        return rows.select_related("lane__watch", "relayer__health", "last_attempt").defer(*DEFERRED)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        text = search_term.strip()
        rows, _ = super().get_search_results(request, queryset, search_term)
        keys = [*keys_by_hash(text), *keys_by_nonce(text)]
        if not keys:
            return rows, False
        others = rows.order_by().values_list("pk", flat=True)[:MANY]
        return queryset.filter(pk__in=[*keys, *others]), False

    def get_fieldsets(self, request: HttpRequest, obj: Transaction | None = None) -> Any:
        receipt = [("Receipt", {"fields": RECEIPT})] if obj and obj.block_number is not None else []
        return [("Payload", {"fields": PAYLOAD}), *receipt, ("Request", {"fields": REQUEST})]

    @display(description="status")
    def shown_state(self, row: Transaction) -> str:
        return formatting.badge(row.status)

    @display(description="relayer")
    def sender(self, row: Transaction) -> str:
        return link(row.relayer) if row.relayer else row.lane.address

    @display(description="network")
    def network(self, row: Transaction) -> str:
        return formatting.network_name(row.relayer, row.lane)

    @display(description="nonce")
    def shown_nonce(self, row: Transaction) -> str:
        return "-" if row.nonce is None else str(row.nonce)

    @display(description="to")
    def shown_receiver(self, row: Transaction) -> str:
        return formatting.shortened(row.to) if row.to else "new contract"

    @display(description="to")
    def receiver(self, row: Transaction) -> str:
        if not row.to:
            return "creates a contract"
        return formatting.explorer_link(formatting.network_of(row.relayer, row.lane), "address", row.to)

    @display(description="value")
    def shown_value(self, row: Transaction) -> str:
        return formatting.value(row)

    @display(description="value")
    def listed_value(self, row: Transaction) -> str:
        return formatting.listed_value(row)

    @display(description="why")
    def reason(self, row: Transaction) -> str:
        return formatting.readable(status_reason(row, row.lane)) or "-"

    @display(description="data")
    def shown_data(self, row: Transaction) -> str:
        return formatting.hexadecimal(row.data)

    @display(description="requested price")
    def requested_price(self, row: Transaction) -> str:
        by_speed = row.pricing == Transaction.Pricing.SPEED
        return f"by speed: {row.speed}" if by_speed else formatting.price(row)

    @display(description="block")
    def block(self, row: Transaction) -> str:
        network = formatting.network_of(row.relayer, row.lane)
        return formatting.explorer_link(network, "block", str(row.block_number))

    @display(description="result")
    def outcome(self, row: Transaction) -> str:
        return {True: "succeeded", False: "reverted", None: "unknown"}[row.succeeded]

    @display(description="gas used")
    def shown_gas_used(self, row: Transaction) -> str:
        return "-" if row.gas_used is None else f"{row.gas_used:,}"

    @display(description="effective gas price")
    def effective_price(self, row: Transaction) -> str:
        return gwei(int(row.effective_gas_price_text)) if row.effective_gas_price_text else "-"

    @display(description="fee paid for gas")
    def fee(self, row: Transaction) -> str:
        if row.gas_used is None or not row.effective_gas_price_text:
            return "-"
        paid = row.gas_used * int(row.effective_gas_price_text)
        return coins(paid, formatting.network_of(row.relayer, row.lane))

    @display(description="created contract")
    def contract(self, row: Transaction) -> str:
        network = formatting.network_of(row.relayer, row.lane)
        return formatting.explorer_link(network, "address", row.contract_address) if row.contract_address else "-"

    @display(description="revert data")
    def shown_revert_data(self, row: Transaction) -> str:
        return formatting.hexadecimal(row.revert_data)

    @display(description="kind")
    def shown_kind(self, row: Transaction) -> str:
        return str(row.get_kind_display())

    @display(description="requested by")
    def shown_requester(self, row: Transaction) -> str:
        return row.requested_by or "-"

    @display(description="idempotency key")
    def shown_key(self, row: Transaction) -> str:
        return row.idempotency_key or "-"

    @display(description="trace ID")
    def trace(self, row: Transaction) -> str:
        return trace_id(row.traceparent) or "-"

    @display(description="accepted")
    def accepted(self, row: Transaction) -> str:
        return exact(row.created_at)

    @display(description="valid until")
    def valid(self, row: Transaction) -> str:
        return exact(row.valid_until)


def keys_by_hash(text: str) -> list[int]:
    """Return the transactions with an attempt that has this hash."""
    if not HASH.fullmatch(text):
        return []
    return list(Attempt.objects.filter(hash=text.lower()).values_list("transaction", flat=True)[:MANY])


def keys_by_nonce(text: str) -> list[int]:
    """Return the transactions with this nonce, in the current epoch of each lane.

    By lane, whose nonces have an index: searching for the nonce alone would read the whole table.
    """
    if not (text.isascii() and text.isdecimal() and is_key(text)):
        return []
    lanes = Lane.objects.filter(transactions__nonce=int(text), transactions__epoch=F("epoch"))
    return list(lanes.values_list("transactions__pk", flat=True)[:MANY])
