"""Panels: the calls of a relayer, and the last price of a fee token."""

from typing import Any

from django.http import HttpRequest

from relayer_service.console.dates import ago
from relayer_service.console.overview.charts import Period, range_links
from relayer_service.console.panels import Panel, object_view
from relayers.models import Relayer
from rpc.console import calls, formatting


class Calls(Panel):
    tab = "transactions"
    template = "admin/rpc/calls.html"

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        period = Period.from_request(request)
        context = calls.context(relayer, period)
        return context | {"call_ranges": range_links(request, period.range)}


class Price(Panel):
    """The last price, overall and by source, with a button that reads it again."""

    template = "admin/rpc/price.html"
    views = ["read"]

    def context(self, request: HttpRequest, token: Any) -> dict[str, Any]:
        may_read = self.admin.has_refresh_permission(request, token)
        return {"price": price(token), "read_url": self.url("read", token) if may_read else ""}

    @object_view("refresh")
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
