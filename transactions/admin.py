"""The list of transactions, and a page for each: what was requested, signed and broadcast, and where it is now."""

import re
from typing import Any

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from chain.units import coins, gwei
from relayer_service.console.base import column
from relayer_service.console.dates import exact, to_the_minute
from relayer_service.console.lists.changelists import ResourceList, is_key
from relayer_service.console.lists.search import MANY
from relayer_service.observability.tracing import trace_id
from spending import erc20
from transactions.console import filters, formatting, token_calls
from transactions.console.actions import RequestedActionAdmin
from transactions.console.bulk import BulkAdmin
from transactions.console.export_actions import ExportAdmin
from transactions.console.exports import paid
from transactions.console.lanes import LaneAdmin
from transactions.console.token_calls import find_symbols
from transactions.models import NOOPS, Attempt, Lane, Transaction
from transactions.records import finding
from transactions.records.list_payloads import LARGE_COLUMNS
from transactions.records.networks import known_network
from transactions.records.reasons import status_reason
from transactions.requests.replacement_prices import requested

HASH = re.compile(r"0x[0-9a-f]{64}", re.ASCII | re.IGNORECASE)
PAYLOAD = ["receiver", "shown_value", "shown_data", "requested_gas_limit", "requested_price"]
RECEIPT = ["block", "outcome", "shown_gas_used", "effective_price", "fee", "contract", "shown_revert_data"]
REQUEST = [
    "identifier", "shown_kind", "shown_requester", "shown_key", "shown_external_id", "shown_metadata", "trace",
    "accepted", "valid", "version",
]  # fmt: skip
DEFERRED = [*LARGE_COLUMNS, "relayer__custom_rpc_urls", "relayer__private_rpc_urls", "relayer__health__balance_hours"]


admin.site.register(Lane, LaneAdmin)


@admin.register(Transaction)
class TransactionAdmin(BulkAdmin, ExportAdmin, RequestedActionAdmin):
    list_display = [
        "identifier", "sender", "shown_state", "network", "shown_nonce", "shown_receiver", "listed_value", "reason",
        "created",
    ]  # fmt: skip
    extra_columns = ["shown_external_id", "shown_key", "shown_requester", "finished"]
    list_filter = [
        filters.StatusFilter,
        ("relayer", filters.RelayerFilter),
        filters.RelayerNetworkFilter,
        filters.RelayerTagFilter,
        filters.KindFilter,
        filters.TokenFilter,
        filters.CreatedPeriodFilter,
        ("created_at", filters.CreatedDaysFilter),
        # They set the order of the list.
        filters.FinishedPeriodFilter,
        ("finished_at", filters.FinishedDaysFilter),
    ]
    list_fullwidth = True
    search_fields = ["identifier", "to", "recipient", "external_id", "idempotency_key"]
    search_help_text = (
        "The start of an ID, external ID, idempotency key or receiver (also of tokens), a hash, a nonce, or metadata "
        "as key:value"
    )
    palette_columns = ["status", "relayer", "external_id"]
    sort_orders = {"created": "sequence"}
    allowed_lookups = {
        *("status", "network", "tag", "kind", "created", "finished", "token"),
        *("created_at_from", "created_at_to", "finished_at_from", "finished_at_to"),
    }
    allowed_keys = {filters.RELAYER}
    readonly_fields = ["token_call", *PAYLOAD, *RECEIPT, *REQUEST]

    class Media:
        css = {"all": ["relayers/admin.css", "transactions/admin.css"]}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ResourceList]:
        return filters.TransactionList

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
        labelled = finding.metadata_condition(queryset, text) if finding.SEPARATOR in text else Q()
        if not keys and not labelled:
            return rows, False
        others = rows.order_by().values_list("pk", flat=True)[:MANY]
        return queryset.filter(Q(pk__in=[*keys, *others]) | labelled), False

    def get_fieldsets(self, request: HttpRequest, obj: Transaction | None = None) -> Any:
        is_noop = obj and obj.mined_attempt and obj.mined_attempt.purpose in NOOPS
        title = "Receipt of the no-op" if is_noop else "Receipt"
        receipt = [(title, {"fields": RECEIPT})] if obj and obj.block_number is not None else []
        call = ["token_call"] if obj and erc20.decode(bytes(obj.data)) else []
        return [("Payload", {"fields": [*call, *PAYLOAD]}), *receipt, ("Request", {"fields": REQUEST})]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        rows = list(changelist.result_list)
        is_shown = {"shown_receiver", "reason"}.intersection(changelist.list_display)
        calls, symbols = token_calls.read_words(rows if is_shown else [])
        for row in rows:
            row.token_call = calls.get(row.pk, "")
            row.why = formatting.listed_reason(status_reason(row, row.lane), known_network(row), symbols)
        changelist.result_list = rows
        return changelist

    shown_state = column("status", lambda row: formatting.badge(row.status))
    sender = column("relayer", formatting.sender)
    network = column("network", formatting.network_name)
    shown_nonce = column("nonce", lambda row: "-" if row.nonce is None else str(row.nonce))
    shown_receiver = column("to", formatting.listed_receiver)
    receiver = column("to", formatting.receiver)
    shown_value = column("value", formatting.value)
    listed_value = column("value", formatting.listed_value)
    reason = column("why", lambda row: row.why or "-")
    shown_data = column("data", lambda row: formatting.hexadecimal(row.data))

    @display(description="token call")
    def token_call(self, row: Transaction) -> str:
        call = erc20.decode(bytes(row.data))
        return formatting.token_call(row, call, token_calls.words(row, call, find_symbols([row]))) if call else "-"

    # The timeline has its changes, as long as the audit log keeps them.
    requested_price = column("last requested price", lambda row: requested(row)["price"])
    block = column("block", lambda row: formatting.explorer_link(row, "block", str(row.block_number)))
    outcome = column("result", lambda row: {True: "succeeded", False: "reverted", None: "unknown"}[row.succeeded])
    shown_gas_used = column("gas used", lambda row: "-" if row.gas_used is None else f"{row.gas_used:,}")

    @display(description="effective gas price")
    def effective_price(self, row: Transaction) -> str:
        return gwei(int(row.effective_gas_price_text)) if row.effective_gas_price_text else "-"

    @display(description="fee paid for gas")
    def fee(self, row: Transaction) -> str:
        cost = paid(row.gas_used, row.effective_gas_price_text)
        return "-" if cost is None else coins(cost, known_network(row))

    @display(description="created contract")
    def contract(self, row: Transaction) -> str:
        return formatting.explorer_link(row, "address", row.contract_address) if row.contract_address else "-"

    shown_revert_data = column("revert data", lambda row: formatting.hexadecimal(row.revert_data))
    shown_kind = column("kind", lambda row: str(row.get_kind_display()))
    shown_requester = column("requested by", lambda row: getattr(row, "requester_link", row.requested_by) or "-")
    shown_key = column("idempotency key", lambda row: row.idempotency_key or "-")
    shown_external_id = column("external ID", lambda row: row.external_id or "-")
    shown_metadata = column("metadata", formatting.metadata)
    trace = column("trace ID", lambda row: trace_id(row.traceparent) or "-")
    finished = column("finished", lambda row: to_the_minute(row.finished_at))
    accepted = column("accepted", lambda row: exact(row.created_at))
    valid = column("valid until", lambda row: exact(row.valid_until))


def keys_by_hash(text: str) -> list[int]:
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
