"""On a relayer's page: estimate the fee of a transaction, check it against all rules, or send it."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from rest_framework.exceptions import APIException

from chain.units import coins
from relayer_service.api.idempotency import body_digest
from relayer_service.audit.recording import acted, record
from relayer_service.console import confirmation
from relayer_service.console.confirmation import PendingAction, ReasonForm, Table
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import link
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from rpc import errors
from rpc.console import fee_breakdown
from rpc.console.try_form import LABELS, TransactionForm
from rpc.fees.quote import quote
from rpc.models import FeeToken
from transactions.console import dry_run
from transactions.console.actions import texts_of
from transactions.console.formatting import readable
from transactions.console.permissions import may_send, may_view_transactions
from transactions.limits import refusals
from transactions.models import Transaction
from transactions.requests import accepting

logger = logging.getLogger(__name__)

UNREADABLE = "The RPC URLs cannot be decrypted with the configured encryption keys."
SEND, TRY_IT = "Send a transaction", "Try it"
EFFECT = "The relayer sends this transaction now. Its policies, spending rules and limits apply."
NO_ESTIMATE = "There is no estimate of its cost. {}"
REFUSED = "It would be refused now. {}"
# The hidden field that makes a confirmation that is sent twice send one transaction.
KEY = "key"
KEYS = re.compile(r"[0-9a-f]{32}")
MAX_DATA_SHOWN = 200
CALL = {"function": "transfer(address,uint256)", "data": "", "gas_limit": "", "transaction": ""}


class TryIt(Panel):
    tab = "transactions"
    template = "admin/rpc/try_panel.html"
    views = ["try_it", "estimate", "allowed", "send"]

    class Media:
        css = {"all": ["rpc/admin.css", "transactions/admin.css"]}
        js = ["rpc/admin.js"]

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        return self._context(request, relayer, TransactionForm(relayer))

    def _context(self, request: HttpRequest, relayer: Relayer, form: TransactionForm) -> dict[str, Any]:
        views = {"Check rules": "allowed"} if may_view_transactions(request) else {}
        can_send = may_send(request)
        views |= {"Send": "send"} if can_send else {}
        parts = {
            "url": self.url("estimate", relayer),
            "buttons": [
                {
                    "text": text,
                    "attrs": {"formaction": self.url(view, relayer)},
                    "variant": "primary" if view == "send" else "default",
                }
                for text, view in views.items()
            ],
            "estimate_variant": "default" if can_send else "primary",
            "samples": [
                {"text": name, "attrs": {"type": "button", "data-sample": json.dumps(values)}}
                for name, values in samples(relayer).items()
            ],
        }
        return {"try_it": parts, "try_form": form}

    @object_view("view", "GET")
    def try_it(self, request: HttpRequest, relayer: Relayer) -> HttpResponse:
        """Show the form alone, filled in with the first sample."""
        sample = next(iter(samples(relayer).values()))
        return self._page(request, relayer, TransactionForm(relayer, initial=sample))

    @object_view("view")
    def estimate(self, request: HttpRequest, relayer: Relayer) -> HttpResponse:
        """Show a quote with all its parts: only the parts for the script, else a page."""
        form = TransactionForm(relayer, request.POST)
        context = estimated(relayer, form) if form.is_valid() else {}
        if request.headers.get("X-Requested-With") == "fetch":
            return TemplateResponse(request, "admin/rpc/estimate.html", {"try_form": form, "fetched": True, **context})
        return self._page(request, relayer, form, context)

    @object_view("view")
    def allowed(self, request: HttpRequest, relayer: Relayer) -> HttpResponse:
        """Show every rule with its verdict, and what the transaction would cost."""
        if not may_view_transactions(request):
            raise PermissionDenied
        form = TransactionForm(relayer, request.POST)
        found = dry_run.outcome(relayer, form.values, form.network) if form.is_valid() else {}
        return self._page(request, relayer, form, found)

    @object_view("view")
    def send(self, request: HttpRequest, relayer: Relayer) -> HttpResponse:
        """Ask to confirm what is sent, then send it once and show it."""
        if not may_send(request):
            raise PermissionDenied
        form, key = TransactionForm(relayer, request.POST), request.POST.get(KEY, "")
        reason = ReasonForm(request.POST if key else None, required=False)
        if form.is_valid() and form.unsendable:
            form.add_error("transaction", form.unsendable)
        if not form.is_valid():
            return self._page(request, relayer, form)
        if key and reason.is_valid():
            if not KEYS.fullmatch(key):
                raise BadRequest("The key of the form is damaged.")
            try:
                row = send(request, relayer, form, key, reason.cleaned_data["reason"])
            except APIException as error:
                add_refusal(form, error)
                return self._page(request, relayer, form)
            self.admin.message_user(request, "The transaction is accepted.", messages.SUCCESS)
            return HttpResponseRedirect(reverse("admin:transactions_transaction_change", args=[row.pk]))
        return self._ask(request, relayer, form, reason)

    def _ask(self, request: HttpRequest, relayer: Relayer, form: TransactionForm, reason: ReasonForm) -> HttpResponse:
        pending = PendingAction.on_page(request, relayer.pk, self.url("change", relayer))
        pending = replace(pending, hidden={**form.sent(), KEY: request.POST.get(KEY) or uuid4().hex})
        found = dry_run.outcome(relayer, form.values, form.network)
        texts = [EFFECT]
        if found.get("reason") or found.get("fault"):
            texts.append(NO_ESTIMATE.format(found.get("reason") or found["fault"]))
        if found.get("refusals"):
            texts.append(REFUSED.format(" ".join(found["refusals"])))
        rows = [[name, value] for name, value in (facts(relayer, form) | found.get("facts", {})).items()]
        return confirmation.ask(request, self.admin, pending, SEND, texts, Table(["Part", "Value"], rows), reason)

    def _page(
        self, request: HttpRequest, relayer: Relayer, form: TransactionForm, found: dict[str, Any] | None = None
    ) -> HttpResponse:
        what = SEND if may_send(request) else TRY_IT
        page = {
            **self.admin.admin_site.each_context(request),
            "title": f"{what}: {relayer.name}",
            "card_title": what,
            "opts": self.admin.opts,
            "original": relayer,
            "media": self.admin.media,
            "back": self.url("change", relayer),
        }
        context = self._context(request, relayer, form)
        return TemplateResponse(request, "admin/rpc/try_page.html", page | context | (found or {}))


def samples(relayer: Relayer) -> dict[str, dict[str, str]]:
    """Return values of the form by the name of the sample: both leave the account as it is, but for the gas."""
    token = FeeToken.objects.filter(network=relayer.network, enabled=True).order_by("pk").values_list("address")[:1]
    own, contract = relayer.address, next((address for (address,) in token), relayer.address)
    empty = dict.fromkeys(CALL, "") | {"arguments": ""}
    return {
        "Payment": {**empty, "to": own, "value": "0"},
        "ERC-20 transfer": {**CALL, "to": contract, "value": "0", "arguments": f"{own}\n0"},
    }


def estimated(relayer: Relayer, form: TransactionForm) -> dict[str, Any]:
    """Return the items of the quote, or the error that a caller would get."""
    values = form.cleaned_data
    fee_tokens = [values["fee_token"]] if values["fee_token"] else None
    try:
        found = quote(relayer, relayer.network, form.encoded, fee_tokens, values["speed"] or None)
        return {"items": fee_breakdown.items(found)}
    except errors.RpcError as error:
        return {"error": error.body()}
    except DecryptionError:
        return {"error": errors.InternalError().body() | {"description": UNREADABLE}}
    except Exception:
        logger.exception("An estimate failed", extra={"fields": {"relayer": relayer.identifier}})
        return {"error": errors.InternalError().body()}


def facts(relayer: Relayer, form: TransactionForm) -> dict[str, str]:
    """Return what is sent, by name."""
    values, data = form.values, f"0x{(form.values.get('data') or b'').hex()}"
    shown = data if len(data) <= MAX_DATA_SHOWN else f"{data[:MAX_DATA_SHOWN]}… ({len(data) // 2 - 1:,} bytes)"
    call = {"Function": form.cleaned_data["function"], "Arguments": ", ".join(form.cleaned_data["arguments"].split())}
    return {
        "Relayer": link(relayer),
        "Network": relayer.network,
        "Sender": relayer.address,
        "Receiver": values.get("to") or "none: it creates a contract",
        "Amount": coins(values["value"], form.network),
        **({name: value for name, value in call.items() if value}),
        **({"Data": shown} if data != "0x" else {}),
        **({"External ID": values["external_id"]} if "external_id" in values else {}),
        **({"Metadata": ", ".join(map(": ".join, values["metadata"].items()))} if "metadata" in values else {}),
    }


def send(request: HttpRequest, relayer: Relayer, form: TransactionForm, key: str, reason: str) -> Transaction:
    """Accept the transaction as REST does, once per key."""
    labels = [form.values[name] for name in LABELS if name in form.values]
    by, digest = request.user.get_username(), body_digest([form.encoded, form.values.get("speed"), *labels])
    wanted = accepting.SendRequest(relayer.identifier, form.values, by, f"admin-{key}", digest)
    with refusals.recorded(), transaction.atomic():
        accepted = accepting.accept(wanted, reports_refusals=False)
        if not accepted.is_replay:
            record([acted(accepted.row, f"Sent by {by}. {reason}".strip())])
    return accepted.row


def add_refusal(form: TransactionForm, error: APIException) -> None:
    """Add why a transaction was not accepted to the fields that it names."""
    if isinstance(error.detail, dict):
        form.add_faults(error.detail)
    else:
        form.add_error(None, [readable(text, form.network) for text in texts_of(error.detail)])
