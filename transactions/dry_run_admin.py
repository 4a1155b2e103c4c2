"""On a relayer's page: whether a transaction would be allowed, without sending it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from chain.networks import Network, networks
from relayer_service.admin.dashboard import label
from relayer_service.admin.panels import Panel, object_view
from relayer_service.background.shares import Busy
from relayer_service.extensions import is_enabled
from relayers.models import Relayer
from relayers.policy_fields import amount, coins
from transactions.dry_run import Check, DryRun, Estimate, LimitCheck, check
from transactions.lanes.pricing import gwei
from transactions.serializers import SendTransactionSerializer

BUSY = "Too many requests wait for nodes now. Try again."
CHECK_HEADERS = ["Rule", "Source", "Verdict", "Why"]
LIMIT_HEADERS = ["Limit", "Source", "Verdict", "Amount", "Used in 24 hours", "Left", "Maximum"]
SOURCES = {"state": "relayer", "policies": "relayer and network", "queue": "relayer", "token": "token"}


class DryRunForm(forms.Form):
    """A transaction as REST accepts it, with the same checks of its shape."""

    to = forms.CharField(
        label="Receiver",
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "0x…", "spellcheck": "false"}),
        help_text="Empty to create a contract.",
    )
    value = forms.CharField(initial="0", widget=UnfoldAdminTextInputWidget)
    data = forms.CharField(  # type: ignore[assignment]  # declared fields are not attributes of the class
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "spellcheck": "false", "placeholder": "0x…"}),
    )

    def __init__(self, network: Network | None, data: Any = None) -> None:
        super().__init__(data, prefix="allowed")
        self.network = network
        example = f", or in the network's coin, for example 0.5 {network.symbol}" if network else ""
        self.fields["value"].help_text = f"In wei{example}."

    def clean_value(self) -> str:
        value = amount(self.cleaned_data["value"], self.network)
        if not isinstance(value, int):
            raise forms.ValidationError("a whole number from 0 to 2^256 - 1 is required")
        return str(value)

    def clean(self) -> dict[str, Any]:
        cleaned = {name: text for name, text in (super().clean() or {}).items() if text}
        serializer = SendTransactionSerializer(data=cleaned)
        serializer.is_valid()
        for name, faults in serializer.errors.items():
            if name not in self.errors:
                self.add_error(name if name in self.fields else None, [str(fault) for fault in faults])
        return {"values": serializer.validated_data} if not self.errors else {}


class WouldBeAllowed(Panel):
    template = "admin/transactions/dry_run_panel.html"
    views = ["allowed"]

    class Media:
        css = {"all": ["transactions/admin.css"]}

    def may_view(self, request: HttpRequest) -> bool:
        return is_enabled("transactions") and bool(request.user.has_perm("transactions.view_transaction"))

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        return {"allowed_url": self.url("allowed", relayer), "allowed_form": DryRunForm(network_of(relayer))}

    @object_view("view")
    def allowed(self, request: HttpRequest, relayer: Relayer) -> HttpResponse:
        """Show every rule with its verdict, and what the transaction would cost."""
        form = DryRunForm(network_of(relayer), request.POST)
        context = {"allowed_url": self.url("allowed", relayer), "allowed_form": form}
        if form.is_valid():
            context |= outcome(relayer, form.cleaned_data["values"], form.network)
        page = {
            **self.admin.admin_site.each_context(request),
            "title": f"Would this be allowed? {relayer.name}",
            "opts": self.admin.opts,
            "original": relayer,
            "media": self.admin.media,
            "back": self.url("change", relayer),
        }
        return TemplateResponse(request, "admin/transactions/dry_run_page.html", page | context)


def network_of(relayer: Relayer) -> Network | None:
    return networks().get(relayer.network)


def outcome(relayer: Relayer, values: dict[str, Any], network: Network | None) -> dict[str, Any]:
    try:
        found: DryRun = check(relayer, values)
    except Busy:
        return {"fault": BUSY}
    return {
        "verdict": verdict(found.allowed),
        "checks": {"headers": CHECK_HEADERS, "rows": [check_row(each) for each in found.checks]},
        "limits": {"headers": LIMIT_HEADERS, "rows": [limit_row(each, network) for each in found.limits]},
        "facts": facts(found.estimate, network),
        "reason": found.estimate.reason,
    }


def verdict(allowed: bool) -> str:
    return label("allowed", "success") if allowed else label("refused", "danger")


def check_row(each: Check) -> list[str]:
    return [each.rule, SOURCES.get(each.source, each.source), verdict(each.allowed), each.text]


def limit_row(each: LimitCheck, network: Network | None) -> list[str]:
    is_of_token = each.name.startswith("token:")

    def shown(number: int | None) -> str:
        if number is None:
            return "unknown"
        return f"{number:,}" if is_of_token else coins(number, network)

    waits = each.name == "gas" and not each.allowed
    judged = label("would wait", "warning") if waits else verdict(each.allowed)
    rule = f"{each.rule} {each.name.removeprefix('token:')}" if is_of_token else each.rule
    return [rule, each.source, judged, *map(shown, (each.amount, each.used, each.left, each.maximum))]


def facts(estimate: Estimate, network: Network | None) -> dict[str, str]:
    if estimate.gas_limit is None:
        return {}
    price = estimate.gas_price if estimate.gas_price is not None else estimate.max_fee
    return {
        "Gas limit": f"{estimate.gas_limit:,}",
        "Maximum gas price": gwei(price or 0),
        "Maximum gas cost": coins(estimate.max_gas_cost or 0, network),
    }
