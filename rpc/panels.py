"""Panels: the calls of a relayer, a form that tries an estimate, and the last price of a fee token."""

import logging
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from relayer_service.admin.dates import ago
from relayer_service.admin.panels import Panel, object_view
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from rpc import calls, errors, fee_breakdown, formatting
from rpc.fees.quote import quote
from rpc.forms import EstimateForm
from rpc.relayer_lookup import RpcRelayer

logger = logging.getLogger(__name__)

UNREADABLE = "The RPC URLs cannot be decrypted with the configured encryption keys."


class Calls(Panel):
    template = "admin/rpc/calls.html"

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        return calls.context(relayer)


class TryEstimate(Panel):
    template = "admin/rpc/estimate_panel.html"
    views = ["estimate"]

    class Media:
        css = {"all": ["rpc/admin.css"]}
        js = ["rpc/admin.js"]

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        return {"estimate_url": self.url("estimate", relayer), "estimate_form": EstimateForm(relayer)}

    @object_view("view")
    def estimate(self, request: HttpRequest, relayer: Relayer) -> HttpResponse:
        """Show a quote with all its parts: only the parts for the script, else a page."""
        form = EstimateForm(relayer, request.POST)
        context = {"estimate_url": self.url("estimate", relayer), "estimate_form": form}
        context |= outcome(relayer, form) if form.is_valid() else {}
        if request.headers.get("X-Requested-With") == "fetch":
            return TemplateResponse(request, "admin/rpc/estimate.html", context)
        page = {
            **self.admin.admin_site.each_context(request),
            "title": f"Try an estimate: {relayer.name}",
            "opts": self.admin.opts,
            "media": self.admin.media,
            "back": self.url("change", relayer),
        }
        return TemplateResponse(request, "admin/rpc/estimate_page.html", page | context)


def outcome(relayer: Relayer, form: EstimateForm) -> dict[str, Any]:
    """Return the items of the quote, or the error that a caller would get."""
    values = form.cleaned_data
    fee_tokens = [values["fee_token"]] if values["fee_token"] else None
    try:
        snapshot, speed = RpcRelayer.from_row(relayer), values["speed"] or None
        found = quote(snapshot, relayer.network, values["transaction"], fee_tokens, speed)
        return {"items": fee_breakdown.items(found)}
    except errors.RpcError as error:
        return {"error": error.body()}
    except DecryptionError:
        return {"error": errors.InternalError().body() | {"description": UNREADABLE}}
    except Exception:
        logger.exception("An estimate failed", extra={"fields": {"relayer": relayer.identifier}})
        return {"error": errors.InternalError().body()}


class Price(Panel):
    """The last price and that of each source, with a button that reads them again."""

    template = "admin/rpc/price.html"
    views = ["read"]

    def context(self, request: HttpRequest, token: Any) -> dict[str, Any]:
        may_read = self.admin.has_change_permission(request, token)
        return {"price": price(token), "read_url": self.url("read", token) if may_read else ""}

    @object_view("change")
    def read(self, request: HttpRequest, token: Any) -> None:
        self.admin.read_now(request, [token])


def price(token: Any) -> dict[str, Any]:
    facts = {
        "State": formatting.badge(token.state),
        "Price": formatting.per_coin(token, token.rate_text) if token.rate_text else "unknown",
        "Decimals": "not read yet" if token.decimals is None else str(token.decimals),
        "Last read": ago(token.rated_at),
    }
    rows = [
        [detail["name"], formatting.per_coin(token, detail["rate"]), ago(formatting.moment(detail["updated_at"]))]
        for detail in token.rate_details
    ]
    return {"facts": facts, "fault": token.rate_error, "table": {"headers": ["Source", "Price", "Age"], "rows": rows}}
