"""Actions of a transaction's page: whether a request repeats what was found on the chain after commits were lost."""

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.decorators import action

from relayer_service.console import confirmation
from relayer_service.console.base import ReadOnlyAdmin
from relayer_service.console.confirmation import PendingAction, ReasonForm
from transactions.console import formatting
from transactions.models import Transaction
from transactions.repair.duplicates import send_request
from transactions.settlement.nonces.adoption import find_claim, link

LINK, SEND = "This is the transaction found on the chain", "This is another payment: send it"
FOUND = "The transaction found on the chain is {hash}, with nonce {nonce} in block {block}."
LINK_EFFECT = "The request gets the nonce and the result of that transaction. Nothing is sent."
SEND_EFFECT = (
    "The request is sent. If the client repeated it because the database had lost it, the payment is made twice."
)
CHANGED = "The transaction was changed meanwhile."
# The form field with the transaction that was shown: another one is never linked.
FOUND_FIELD = "found"


class ClaimAdmin(ReadOnlyAdmin):
    """A page with the two decisions, as long as its request waits for one."""

    actions_detail = ["link_found", "send_anyway"]

    def has_request_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("transactions.change_transaction"))

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        offered: list[Any] = super().get_actions_detail(request, object_id)
        row = self.get_object(request, unquote(object_id)) if offered else None
        if row is not None and find_claim(row) is not None:
            return offered
        return [item for item in offered if item.description not in {LINK, SEND}]

    @action(description=LINK, icon="link", permissions=["request"])
    def link_found(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_decide(request, object_id, LINK, LINK_EFFECT)

    @action(description=SEND, icon="send", permissions=["request"])
    def send_anyway(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_decide(request, object_id, SEND, SEND_EFFECT)

    def _ask_or_decide(self, request: HttpRequest, object_id: str, title: str, effect: str) -> HttpResponse:
        row: Transaction = self.get_object_or_404(request, object_id)
        page = reverse("admin:transactions_transaction_change", args=[row.pk])
        pending, found = PendingAction.on_page(request, row.pk, page), find_claim(row)
        is_shown = found is not None and (not pending.is_confirmed or request.POST.get(FOUND_FIELD) == str(found.pk))
        if found is None or not is_shown:
            self.message_user(request, CHANGED, messages.WARNING)
            return pending.leave()
        form = ReasonForm(request.POST if pending.is_confirmed else None, required=True)
        if form.is_valid():
            reason = form.cleaned_data["reason"]
            done = link(row, found, reason) if title == LINK else send_request(row, reason)
            text = "Linked." if title == LINK else "It is sent."
            self.message_user(request, text if done else CHANGED, messages.SUCCESS if done else messages.WARNING)
            return pending.leave()
        texts = [FOUND.format(hash=found.mined_attempt, nonce=found.nonce, block=found.block_number), effect]
        table = pending.first(self.get_queryset(request), {"Value": formatting.value})
        pending = replace(pending, hidden={FOUND_FIELD: found.pk})
        return confirmation.ask(request, self, pending, title, texts, table, form)
