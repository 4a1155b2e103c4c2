from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api import idempotency
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Forbidden, NotFound
from relayer_service.api.filters import ListFilter, time_range
from relayer_service.api.operations import operation
from relayer_service.api.permissions import RelayerInPath
from relayer_service.api.serializers import EvmAddressField
from relayer_service.api.throttling import SendRateThrottle, WaitingRateThrottle
from relayer_service.api.viewsets import ResourceViewSet
from relayer_service.storage.newest import newest_with
from relayers.models import NOT_FOUND, Relayer, find_relayer
from relayers.reach import reached
from transactions import schema
from transactions.models import IS_IN_STATUS, Status, Transaction
from transactions.records import finding, queues
from transactions.records.list_payloads import TransactionPagination
from transactions.records.reasons import RELAYER_COLUMNS, Position, positions, status_reason
from transactions.records.representation import TransactionData, transaction_data
from transactions.records.requesters import HAS_TEXT_ALONE, requested_with
from transactions.requests import accepting, actions, dry_run, quotas
from transactions.serializers import DryRunSerializer, ReasonSerializer, TransactionSerializer

ID_NOT_FOUND = "Transaction with ID {} not found"
NONCE_NOT_FOUND = "Transaction with nonce {} not found"
MAX_NONCE_DIGITS = 20
GENERATION = schema.GENERATION.name
MINED = "It is mined, in block 9000000."
OF_OTHERS = "Another token requested this transaction: changing it requires the scope manage"
# For the OpenAPI document.
SEND_ERRORS = {403: accepting.PAUSED, 429: queues.FULL.format(1_000)}
ID_ERRORS = {404: ID_NOT_FOUND.format(schema.TRANSACTION["id"])}
NONCE_ERRORS = {404: NONCE_NOT_FOUND.format(schema.TRANSACTION["nonce"])}
CANCEL_ERRORS = {**ID_ERRORS, 403: OF_OTHERS, 409: MINED}
CHANGE_ERRORS = {**CANCEL_ERRORS, 403: accepting.PAUSED}
NO_SPONSORING = "Sponsored transactions are not supported: send a transaction, or estimate its fee with feeEstimate"


LIST_FILTERS = {
    "status": ListFilter(
        "Only transactions in this status.", lambda rows, value: rows.filter(IS_IN_STATUS[value]), Status.values
    ),
    "hash": ListFilter("Only the transaction with this hash, of any of its attempts.", finding.with_hash),
    "idempotency_key": ListFilter(
        "Only the transaction with this idempotency key.", finding.by_text("idempotency_key")
    ),
    "external_id": ListFilter("Only transactions with this external ID.", finding.by_text("external_id")),
    "metadata": ListFilter(
        "Only transactions with this pair of metadata: `key:value`.",
        lambda rows, value: rows.filter(finding.metadata_condition(rows, value)),
    ),
    "to": ListFilter(
        "Only transactions to this address, and ERC-20 transfers and approvals for it.",
        finding.with_receiver,
        value_field=EvmAddressField,
    ),
    "token": ListFilter(
        "Only what was requested with the token that has this ID, those that it succeeds and those that succeed it.",
        finding.requested_with,
    ),
    **time_range("created", finding.created_from, finding.created_before),
    **time_range("finished", finding.finished_from, finding.finished_before),
}


class TransactionViewSet(ResourceViewSet):
    """The transactions of a relayer: send, list, get, cancel, replace and speed up."""

    queryset = Transaction.objects.filter(kind=Transaction.Kind.REQUEST).select_related(
        "lane__watch", "last_attempt", "mined_attempt"
    )
    lookup_url_kwarg = "relayer_id"
    serializer_class = TransactionSerializer
    extension = "transactions"
    tags = ["Transactions"]
    idempotency_description = (
        "A request that is sent again with the same key and body, by any token, returns the transaction as it is now. "
        "Keys are kept as long as their transactions."
    )
    not_found_message = NOT_FOUND
    rate_limit = "RATE_LIMIT_SEND"

    @property
    def token(self) -> Any:
        """The token of the request. It may be cached, but not its spending policy."""
        return self.request.auth

    def get_throttles(self) -> list[Any]:
        if self.action == "dry_run" or (self.action == "send" and _is_dry_run(self.request)):
            return [WaitingRateThrottle()]
        return [SendRateThrottle()] if self.operation and self.operation.scope == "send" else []

    @operation(
        "list_transactions", "List the transactions of a relayer", schema.LIST, scope="read", limited_scope="send"
    )
    @action(detail=True, list_filters=LIST_FILTERS, pagination_class=TransactionPagination)
    def transactions(self, request: Request, relayer_id: str) -> Response:
        """Return the transactions, newest first; with a range of `finished`, those that finished last first."""
        self.relayer = self._readable_relayer(relayer_id)
        response = self.paginated(newest_with(self.get_queryset(), "relayer_id", self.relayer.pk))
        response.headers[GENERATION] = _generation(self.relayer)[GENERATION]
        return response

    @operation(
        "send_transaction", "Send a transaction", schema.SEND, scope="send", idempotent=True, errors=SEND_ERRORS
    )
    @transactions.mapping.post
    def send(self, request: Request, relayer_id: str) -> Response:
        """Accept a transaction; it is signed and broadcast in the background."""
        if _is_dry_run(request):
            return self._dry_run(relayer_id)
        # Before the relayer is read: the answer does not disclose whether it exists.
        self.check_object_permissions(request, RelayerInPath(relayer_id))
        key = idempotency.read_key(self)
        values = self._valid_values()
        token = self.token
        accepted = accepting.accept(
            accepting.SendRequest(
                relayer_id,
                values,
                requested_by=str(token),
                key=key,
                digest=idempotency.body_digest(request.data) if key else "",
                token_id=token.pk,
                token_spending=token.spending_id,
                requester=token.family_key,
            )
        )
        row, queued = accepted.row, accepted.queued_before
        place = positions([row]).get(row.pk) if queued is None else Position(queued + 1, queued + 1)
        assert row.relayer is not None
        headers = {GENERATION: str(accepted.generation)} | (idempotency.REPLAYED if accepted.is_replay else {})
        return Response(_shown(row, row.relayer, place), headers=headers)

    @operation("dry_run_transaction", "Dry-run a transaction", schema.DRY_RUN, scope="send")
    @action(detail=True, methods=["post"], url_path="transactions/dry-run")
    def dry_run(self, request: Request, relayer_id: str) -> Response:
        """Return whether a transaction would be accepted now, and what it would cost; nothing is accepted."""
        return self._dry_run(relayer_id)

    # Only a UUID: an ID of a relayer may end in `/transactions`, and other paths follow it.
    @operation(
        "get_transaction", "Get a transaction", schema.GET, scope="read", limited_scope="send", errors=ID_ERRORS
    )
    @action(detail=True, url_path="transactions/(?P<transaction_id>[0-9a-fA-F-]{36})")
    def transaction(self, request: Request, relayer_id: str, transaction_id: str) -> Response:
        """Return a transaction of the relayer."""
        relayer = self._readable_relayer(relayer_id)
        # Also one that a former relayer of the account sent: its key finds it.
        is_own = Q(relayer=relayer) | accepting.has_account(relayer)
        rows = self.get_queryset().filter(is_own, identifier=transaction_id.lower())
        return self._one(rows, relayer, ID_NOT_FOUND.format(transaction_id))

    @operation("cancel_transaction", "Cancel a transaction", schema.CANCEL, scope="send", errors=CANCEL_ERRORS)
    @transaction.mapping.delete
    def cancel(self, request: Request, relayer_id: str, transaction_id: str) -> Response:
        """Cancel a transaction: at once if it is not sent, otherwise by a no-op that takes its nonce.

        If the transaction is mined first, it ends as `confirmed` or `failed`, and `status_reason` says so.
        """
        relayer, row_id = self._own_row(relayer_id, transaction_id)
        return _response(actions.cancel(row_id, **_requester(request)), relayer)

    @operation("replace_transaction", "Replace a transaction", schema.REPLACE, scope="send", errors=CHANGE_ERRORS)
    @transaction.mapping.put
    def replace(self, request: Request, relayer_id: str, transaction_id: str) -> Response:
        """Replace a transaction by another one with the same ID and nonce; either of them is executed, never both.

        Explicit prices must be at least an eighth above those of the transaction in flight, and are used exactly.
        """
        relayer, row_id = self._own_row(relayer_id, transaction_id)
        values, who, policy = self._counted_values(), _requester(request), self.token.read_spending_id()
        return _response(actions.replace(row_id, values, **who, token_spending=policy), relayer)

    @operation(
        "speed_up_transaction",
        "Speed up a transaction",
        schema.SPEED_UP,
        optional_body=True,
        scope="send",
        errors=CHANGE_ERRORS,
    )
    @action(detail=True, methods=["post"], url_path="transactions/(?P<transaction_id>[0-9a-fA-F-]{36})/speed-up")
    def speed_up(self, request: Request, relayer_id: str, transaction_id: str) -> Response:
        """Raise the price of a transaction. Without a body: to that of the next speed, at least by an eighth.

        Explicit prices must be at least an eighth above those of the transaction in flight, and are used exactly.
        """
        relayer, row_id = self._own_row(relayer_id, transaction_id)
        data = self.get_queryset().values_list("data", flat=True).get(pk=row_id)
        price, who, policy = self._counted_values(data), _requester(request), self.token.read_spending_id()
        return _response(actions.speed_up(row_id, price, **who, token_spending=policy), relayer)

    @operation("cancel_transactions", "Cancel all pending transactions", schema.CANCEL_ALL, scope="send")
    @action(detail=True, methods=["delete"], url_path="transactions/pending")
    def cancel_all(self, request: Request, relayer_id: str) -> Response:
        """Cancel all transactions of the relayer that are `pending`, `sent` or `submitted`.

        Without the scope `manage`, only those that the token requested.
        """
        relayer = self._sending_relayer(relayer_id)
        requested, failed = actions.cancel_all(relayer, self._changeable(), **_requester(request))
        return Response(
            {
                "queued_for_cancellation_transaction_ids": requested,
                "failed_to_queue_transaction_ids": failed,
                "total_processed": len(requested) + len(failed),
            },
            headers=_generation(relayer),
        )

    @operation(
        "get_transaction_by_nonce",
        "Get the transaction with a nonce",
        schema.GET_BY_NONCE,
        scope="read",
        limited_scope="send",
        errors=NONCE_ERRORS,
    )
    @action(detail=True, url_path="transactions/by-nonce/(?P<nonce>[0-9]+)")
    def by_nonce(self, request: Request, relayer_id: str, nonce: str) -> Response:
        """Return the transaction that has this nonce of the relayer's account."""
        relayer = self._readable_relayer(relayer_id)
        rows = self.get_queryset().none()
        if len(nonce) <= MAX_NONCE_DIGITS:
            rows = self.get_queryset().filter(
                relayer=relayer, lane__relayer=relayer, epoch=F("lane__epoch"), nonce=int(nonce)
            )
        return self._one(rows, relayer, NONCE_NOT_FOUND.format(nonce))

    # Public clients have these operations, for relayers of other chains.
    @operation("sponsor_transaction", NO_SPONSORING, {"exclude": True}, scope="send")
    @action(detail=True, methods=["post"], url_path="transactions/sponsored/(?:quote|build)")
    def sponsor(self, request: Request, relayer_id: str) -> Response:
        raise NotFound(NO_SPONSORING)

    def _dry_run(self, relayer_id: str) -> Response:
        self.check_object_permissions(self.request, RelayerInPath(relayer_id))
        values = self._valid_values()
        relayer = find_relayer(relayer_id, Relayer.objects.select_related("signer", "spending"))
        found = dry_run.check(relayer, values, self.token.read_spending_id(), self.token.family_key)
        return Response(DryRunSerializer(found).data)

    def _sending_relayer(self, relayer_id: str) -> Relayer:
        # Before the relayer is read: the answer does not disclose whether it exists.
        self.check_object_permissions(self.request, RelayerInPath(relayer_id))
        return find_relayer(relayer_id, _relayers())

    def _own_row(self, relayer_id: str, transaction_id: str) -> tuple[Relayer, int]:
        """Return the relayer, and the primary key of a transaction that it has."""
        relayer = self._sending_relayer(relayer_id)
        rows = self.get_queryset().filter(relayer=relayer, identifier=transaction_id.lower())
        row_id = rows.values_list("pk", flat=True).first()
        if row_id is None:
            raise NotFound(ID_NOT_FOUND.format(transaction_id))
        if not rows.filter(self._changeable()).exists():
            raise Forbidden(OF_OTHERS, ErrorCode.NOT_REQUESTER)
        return relayer, row_id

    def _changeable(self) -> Q:
        """Return the condition of transactions that the token can change: its own, or with `manage` all."""
        if self.token.has_scope("manage"):
            return Q()
        is_own = requested_with(self.token.family_keys(), len(self.token.key))
        return Q(requester=self.token.family_key) | Q(HAS_TEXT_ALONE, is_own)

    def _valid_values(self) -> dict[str, Any]:
        serializer = self.get_serializer(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    def _counted_values(self, data: bytes = b"") -> dict[str, Any]:
        """Return valid values. Their data, or that which is signed again, counts on what the token can store."""
        values = self._valid_values()
        quotas.use(self.token.family_key, len(values.get("data", data)))
        return values

    def _readable_relayer(self, relayer_id: str) -> Relayer:
        rows = _relayers()
        if only := getattr(self.request.auth, "only_relayers", None):
            rows = reached(only, rows)
        relayer = find_relayer(relayer_id, rows)
        self.check_object_permissions(self.request, relayer)
        return relayer

    @staticmethod
    def _one(rows: QuerySet[Any], relayer: Relayer, not_found: str) -> Response:
        row = rows.first()
        if row is None:
            raise NotFound(not_found)
        return _response(row, relayer)


def _relayers() -> QuerySet[Any]:
    rows = Relayer.objects.select_related("health").only(*RELAYER_COLUMNS, "address")
    found: QuerySet[Any] = rows.annotate(generation=Coalesce("lane__generation", 0))
    return found


def _response(row: Transaction, relayer: Relayer) -> Response:
    return Response(_shown(row, relayer, positions([row]).get(row.pk)), headers=_generation(relayer))


def _generation(relayer: Any) -> dict[str, str]:
    """Return the header that a client can notice a restored database by."""
    return {GENERATION: str(relayer.generation)}


def _is_dry_run(request: Request) -> bool:
    text = request.query_params.get("dry_run", "false")
    if text not in {"true", "false"}:
        raise ValidationError({"dry_run": ["must be true or false"]})
    return text == "true"


def _requester(request: Request) -> dict[str, Any]:
    """Return who requests an action, and the reason that was sent with it."""
    serializer = ReasonSerializer(data=request.query_params.dict())
    serializer.is_valid(raise_exception=True)
    return {"by": str(request.auth), **serializer.validated_data}


def _shown(row: Transaction, relayer: Relayer, position: Position | None) -> TransactionData:
    row.relayer = relayer
    return transaction_data(row, status_reason(row, row.lane, position), relayer.identifier, row.lane.address)
