"""On a relayer's page: send what its account holds elsewhere, before its key is replaced.

It is an ordinary transfer, accepted as any other, for a fixed amount that the preview showed.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from rest_framework.exceptions import APIException
from unfold.widgets import UnfoldAdminTextInputWidget

from chain.networks import networks
from chain.units import coins
from relayer_service.api.exceptions import Conflict
from relayer_service.api.idempotency import body_digest
from relayer_service.audit.recording import acted, record
from relayer_service.background.shares import Busy, waiting_for_others
from relayer_service.console import confirmation
from relayer_service.console.confirmation import PendingAction, ReasonForm, Table
from relayer_service.console.panels import object_view
from relayer_service.console.references import link
from relayer_service.database.clock import database_now
from relayers import guards
from relayers.models import Relayer
from transactions.console import dry_run
from transactions.console.actions import texts_of
from transactions.console.formatting import readable
from transactions.console.permissions import TransactionsPanel, may_send
from transactions.limits import refusals
from transactions.models import Transaction
from transactions.requests.accepting import SendRequest, accept
from transactions.serializers import MAX_WEI, SendTransactionSerializer
from transactions.top_ups.quoting import Quote, quote
from transactions.top_ups.sending import reserved

SWEEP, PREVIEW = "Sweep", "Preview"
EFFECT = "Sends the coins of this account to another one. ERC-20 tokens, NFTs and roles in contracts stay with it."
REFUSED = "It would be refused now. {}"
OPEN = "Sweep it once all is final. {}"
TOPPED_UP = "The relayer {} would top it up again. Remove its top-up first."
CHANGED = "Its account or transactions have changed since the preview."
# How often the maximum cost is kept: prices can rise until it is sent, and a transaction that is stuck is bumped.
HEADROOM = 2
VALID_TIME = timedelta(hours=1)


class ReceiverForm(forms.Form):
    to = forms.CharField(
        label="Receiver",
        widget=UnfoldAdminTextInputWidget(attrs={"spellcheck": "false", "autocomplete": "off", "placeholder": "0x…"}),
        help_text="An address on the same network, such as that of the new signer. What is sent cannot be returned.",
    )

    def __init__(self, relayer: Relayer, data: Any = None) -> None:
        super().__init__(data)
        self.relayer = relayer

    def clean_to(self) -> str:
        serializer = SendTransactionSerializer(data={"to": self.cleaned_data["to"].strip(), "value": "0"})
        if not serializer.is_valid():
            raise forms.ValidationError([str(text) for text in serializer.errors.get("to", [])])
        to: str = serializer.validated_data["to"]
        if to.lower() == self.relayer.address.lower():
            raise forms.ValidationError("This is the account that is swept.")
        return to


class SweepForm(ReasonForm):
    """What the preview has shown, which is sent as it is."""

    amount = forms.IntegerField(min_value=1, max_value=MAX_WEI, widget=forms.HiddenInput)
    key = forms.CharField(max_length=255, widget=forms.HiddenInput)


class Sweep(TransactionsPanel):
    tab = "transactions"
    template = "admin/transactions/sweep.html"
    views = ["sweep"]

    def may_view(self, request: HttpRequest) -> bool:
        return may_send(request)

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        return {"sweep_url": self.url("sweep", relayer)}

    @object_view("view", asks_first=True)
    def sweep(self, request: HttpRequest, relayer: Relayer) -> HttpResponse:
        """Ask for the receiver, show what would be sent, and send it once."""
        receiver = ReceiverForm(relayer, request.POST or None)
        if "key" not in request.POST and (fault := obstacle(relayer)):
            return self._refuse(request, relayer, fault)
        if not receiver.is_valid():
            return self._ask(request, relayer, [EFFECT], None, receiver)
        to = receiver.cleaned_data["to"]
        if "key" not in request.POST:
            return self._preview(request, relayer, to)
        form = SweepForm(request.POST, required=False)
        if not form.is_valid():
            raise BadRequest("The fields of the form are damaged.")
        try:
            row = send(request.user.get_username(), relayer, to, **form.cleaned_data)
        except APIException as error:
            network = networks().get(relayer.network)
            return self._refuse(request, relayer, " ".join(readable(text, network) for text in texts_of(error.detail)))
        self.admin.message_user(request, "The transaction is accepted.", messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:transactions_transaction_change", args=[row.pk]))

    def _refuse(self, request: HttpRequest, relayer: Relayer, text: str) -> HttpResponse:
        self.admin.message_user(request, f"Not swept. {text}", messages.ERROR)
        return HttpResponseRedirect(self.url("change", relayer))

    def _preview(self, request: HttpRequest, relayer: Relayer, to: str) -> HttpResponse:
        key, network = sweep_key(relayer), networks().get(relayer.network)
        amount, found = read(relayer, to)
        if found.fault:
            return self._refuse(request, relayer, found.fault)
        outcome = dry_run.outcome(relayer, values(to, amount), network)
        waits = filter(None, [outcome.get("reason") or outcome.get("fault")])
        texts = [EFFECT, *waits, *(REFUSED.format(text) for text in outcome.get("refusals", []))]
        shown = {
            "Relayer": link(relayer),
            "Network": relayer.network,
            "From": relayer.address,
            "To": to,
            "Balance": coins(found.balance, network),
            "Arrives": coins(amount, network),
            "Costs at most": coins(found.cost, network),
            "Stays": coins(found.balance - amount, network) + ", less the cost",
        }
        table = Table(["Part", "Value"], [*shown.items()])
        return self._ask(request, relayer, texts, table, ReasonForm(required=False), to=to, amount=amount, key=key)

    def _ask(
        self,
        request: HttpRequest,
        relayer: Relayer,
        texts: list[str],
        table: Table | None,
        form: forms.Form,
        **hidden: Any,
    ) -> HttpResponse:
        """Ask for the receiver, or with what the preview has shown in hidden fields, whether to send that."""
        pending = PendingAction.on_page(request, relayer.pk, self.url("change", relayer))
        pending, button = replace(pending, hidden=hidden), SWEEP if hidden else PREVIEW
        return confirmation.ask(request, self.admin, pending, f"Sweep {relayer.name}", texts, table, form, button)


def values(to: str, amount: int) -> dict[str, Any]:
    return {"to": to, "value": amount, "valid_until": database_now() + VALID_TIME}


def read(relayer: Relayer, to: str) -> tuple[int, Quote]:
    """Read the balance and what a transfer costs; return what can be sent, which is nothing if there is a fault."""
    try:
        with waiting_for_others():
            found = quote(relayer, to, 0, database_now())
    except Busy:
        return 0, Quote(fault=dry_run.BUSY)
    if found.fault:
        return 0, found
    kept = HEADROOM * found.cost + reserved(relayer, found.count)
    amount = found.balance - kept - relayer.reserve
    if amount > 0:
        return amount, found
    network = networks().get(relayer.network)
    balance, gas, reserve = (coins(each, network) for each in (found.balance, kept, relayer.reserve))
    text = f"the balance is {balance}, of which {gas} is kept for gas and {reserve} as the relayer's reserve."
    return 0, Quote(fault=f"There is nothing to sweep: {text}")


def obstacle(relayer: Relayer) -> str:
    """Return why the account cannot be swept now, or "". It stays true if the caller has locked the relayer."""
    if refusal := guards.refusals([relayer.pk]).get(relayer.pk):
        return OPEN.format(refusal)
    return TOPPED_UP.format(relayer.funding_relayer) if relayer.top_up is not None else ""


def sweep_key(relayer: Relayer) -> str:
    """Return the idempotency key of a sweep: after another transaction it is another one."""
    newest = Transaction.objects.filter(relayer=relayer).order_by("-sequence").values_list("sequence", flat=True)
    return f"sweep-{relayer.expected_chain_id}-{relayer.address}-{newest.first() or 0}"


def send(by: str, relayer: Relayer, to: str, amount: int, key: str, reason: str) -> Transaction:
    """Accept the transfer once per preview, if the account is as it was shown and nothing else is open."""
    wanted = SendRequest(relayer.identifier, values(to, amount), by, key, body_digest([to, str(amount)]))
    with refusals.recorded(), transaction.atomic():
        locked = Relayer.objects.select_for_update(no_key=True, of=("self",)).filter(pk=relayer.pk).first()
        is_replay = Transaction.objects.filter(relayer=relayer.pk, idempotency_key=key).exists()
        if locked is not None and not is_replay:
            if key != sweep_key(locked):
                raise Conflict(CHANGED)
            if fault := obstacle(locked):
                raise Conflict(fault)
        accepted = accept(wanted, reports_refusals=False)
        if not accepted.is_replay:
            record([acted(accepted.row, f"Swept by {by}. {reason}".strip())])
    return accepted.row


def sweep_link(request: HttpRequest, relayer: Relayer) -> str:
    """Return the link to sweep a relayer's account; "" for staff who cannot."""
    if not may_send(request):
        return ""
    page = reverse("admin:relayers_relayer_sweep", args=[relayer.pk])
    return format_html('<a class="underline ml-3" href="{}">{}</a>', page, SWEEP)
