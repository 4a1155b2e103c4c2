"""Actions of a transaction's page: cancel it, raise its price, broadcast it again. Only its lane signs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from rest_framework.exceptions import APIException
from unfold.decorators import action

from relayer_service.api.exceptions import flatten
from relayer_service.console import confirmation
from relayer_service.console.confirmation import PendingAction
from relayer_service.console.references import link
from relayers.console.formatting import amount
from transactions.console import formatting
from transactions.console.duplicates import LINK, ClaimAdmin
from transactions.console.lanes import origin_page
from transactions.console.prices import PRICES, PriceForm, read
from transactions.models import Transaction
from transactions.records.networks import known_network
from transactions.requests import actions
from transactions.requests.possible_actions import maximum_cost, refusal


class PageAction(NamedTuple):
    """An action of `actions` as staff choose it: its name there, its texts, and the function that requests it."""

    name: str
    button: str
    title: str
    effect: str
    done: str
    request: Callable[..., Transaction]


CANCEL = PageAction(
    "cancel",
    "Cancel",
    "Cancel transaction",
    "A no-op with the same nonce and a higher price is sent. The one that is mined first counts: the transaction may "
    "still be executed.",
    "The cancellation is requested.",
    lambda row, price, **who: actions.cancel(row.pk, **price, **who),
)
SPEED_UP = PageAction(
    "speed_up",
    "Speed up",
    "Speed up transaction",
    "The same transaction is sent again at a higher price, and executed at most once.",
    "The higher price is requested.",
    lambda row, price, **who: actions.speed_up(row.pk, price, **who),
)
RESEND = PageAction(
    "resend",
    "Resend",
    "Resend transaction",
    "Its signed bytes are broadcast again now. Nothing is signed, and it is executed at most once.",
    "It is broadcast again.",
    lambda row, price, version, **who: actions.resend(row.pk, **who),
)
PAGE_ACTIONS = {each.button: each for each in (CANCEL, SPEED_UP, RESEND)}
# If the page is shown again with what an entered price costs.
CONFIRM, NOT_SENT = "Confirm", "Not sent yet: check what your price costs, and confirm."
AT_ONCE = "It is canceled at once and costs nothing: it has no nonce yet."
MAXIMUM = "It can cost at most {}, including its value{}."


class RequestedActionAdmin(ClaimAdmin):
    """A page with the actions that are possible now."""

    actions_detail = [*ClaimAdmin.actions_detail, "speed_up", "resend", "cancel"]

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        offered: list[Any] = super().get_actions_detail(request, object_id)
        row = self.get_object(request, unquote(object_id)) if offered else None
        # A request that may repeat what is on the chain waits for that decision.
        has_claim = any(item.description == LINK for item in offered)
        return [item for item in offered if row and not self._is_useless(row, item.description, has_claim)]

    def _is_useless(self, row: Transaction, button: str, has_claim: bool) -> bool:
        return button in PAGE_ACTIONS and (has_claim or bool(refusal(row, PAGE_ACTIONS[button].name)))

    @action(description=CANCEL.button, icon="block", permissions=["request"])
    def cancel(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_request(request, object_id, CANCEL)

    @action(description=SPEED_UP.button, icon="speed", permissions=["request"])
    def speed_up(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_request(request, object_id, SPEED_UP)

    @action(description=RESEND.button, icon="replay", permissions=["request"])
    def resend(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_request(request, object_id, RESEND)

    def _ask_or_request(self, request: HttpRequest, object_id: str, chosen: PageAction) -> HttpResponse:
        row: Transaction = self.get_object_or_404(request, object_id)
        page = origin_page(request, row.lane, reverse("admin:transactions_transaction_change", args=[row.pk]))
        pending = PendingAction.on_page(request, row.pk, page)
        if text := refusal(row, chosen.name):
            self._refuse(request, chosen, text)
            return pending.leave()
        is_fragment = request.method == "GET" and PRICES in request.GET
        data = request.POST if pending.is_confirmed else request.GET if is_fragment else None
        form = PriceForm(row, chosen.name, data)
        if is_fragment:
            form.full_clean()
            return TemplateResponse(request, "admin/table.html", {"table": form.table(read(row))})
        if form.is_valid() and form.is_shown():
            try:
                chosen.request(row, form.values, **form.confirmed(), by=request.user.get_username())
            except actions.Changed as error:
                row = self.get_object_or_404(request, object_id)
                form = PriceForm(row, chosen.name, request.POST)
                form.full_clean()
                self._refuse(request, chosen, str(error.detail))
            except APIException as error:
                # It changed after it was read, or a policy does not allow the new price.
                self._refuse(request, chosen, "; ".join(texts_of(error.detail)))
                return pending.leave()
            else:
                self.message_user(request, chosen.done, messages.SUCCESS)
                return pending.leave()
        button = ""
        if form.is_valid() and not form.is_shown():
            button = CONFIRM
            self.message_user(request, NOT_SENT, messages.WARNING)
        pending = replace(pending, hidden=form.hidden())
        texts = [subject(row), effect(row, chosen)]
        details: dict[str, Any] = {"prices": form.table(), "prices_url": form.url(request.path)}
        return confirmation.ask(request, self, pending, chosen.title, texts, None, form, button, **details)

    def _refuse(self, request: HttpRequest, chosen: PageAction, text: str) -> None:
        self.message_user(request, f"{chosen.button} is not possible. {text}", messages.WARNING)


def texts_of(detail: Any) -> list[str]:
    """Return the texts of an API error, which may be grouped by field."""
    return [text for _, text in flatten(detail)]


def subject(row: Transaction) -> str:
    nonce = "No nonce" if row.nonce is None else f"Nonce {row.nonce}"
    return format_html("{}: {}, {} to {}", link(row), nonce, formatting.value(row), formatting.listed_receiver(row))


def effect(row: Transaction, chosen: PageAction) -> str:
    """Return what an action does with a transaction, and what that can cost at most."""
    if chosen is CANCEL and row.nonce is None:
        return AT_ONCE
    cost = maximum_cost(row, chosen.name)
    if cost is None:
        return chosen.effect
    raised = "" if chosen is RESEND else ", if its price is raised again up to the limit of its policies"
    return format_html("{} {}", chosen.effect, format_html(MAXIMUM, amount(cost, known_network(row)), raised))
