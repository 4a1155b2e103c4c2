"""What the page of a relayer shows of JSON-RPC: its calls, and a form that tries an estimate."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import path, reverse

from relayer_service.storage.encryption import DecryptionError
from relayers.admin import RelayerAdmin
from relayers.models import Relayer
from rpc import calls, errors, itemised
from rpc.fees.estimate import estimate
from rpc.forms import EstimateForm
from rpc.models import CallCount
from rpc.relayer_lookup import RpcRelayer

logger = logging.getLogger(__name__)

UNREADABLE = "The RPC URLs cannot be opened with the encryption keys that are set."


class RelayerWithCallsAdmin(RelayerAdmin):
    change_form_outer_before_template = "admin/rpc/relayer_panels.html"

    class Media:
        css = {"all": ["rpc/admin.css"]}
        js = ["rpc/admin.js"]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        relayer = kwargs.get("obj")
        if relayer:
            context |= calls.context(relayer) | self._estimate_context(relayer, EstimateForm(relayer))
        return super().render_change_form(request, context, *args, **kwargs)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.estimate_view)
        return [path("<path:object_id>/estimate/", view, name="relayers_relayer_estimate"), *super().get_urls()]

    def estimate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give an estimate with all its parts: to a script the parts alone, else a page of their own."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        relayer = self._found(request, object_id)
        if not self.has_view_permission(request, relayer):
            raise PermissionDenied
        form = EstimateForm(relayer, request.POST)
        context = self._estimate_context(relayer, form) | (outcome(relayer, form) if form.is_valid() else {})
        if request.headers.get("X-Requested-With") == "fetch":
            return TemplateResponse(request, "admin/rpc/estimate.html", context)
        page = {
            **self.admin_site.each_context(request),
            "title": f"Try an estimate: {relayer.name}",
            "opts": self.opts,
            "media": self.media,
            "back": reverse("admin:relayers_relayer_change", args=[relayer.pk]),
        }
        return TemplateResponse(request, "admin/rpc/estimate_page.html", page | context)

    def _estimate_context(self, relayer: Relayer, form: EstimateForm) -> dict[str, Any]:
        return {
            "estimate_url": reverse("admin:relayers_relayer_estimate", args=[relayer.pk]),
            "estimate_form": form,
        }

    def get_deleted_objects(self, objs: Iterable[Relayer], request: HttpRequest) -> Any:
        """Say how many counts of calls go with a relayer; Django would list them, be it a hundred thousand."""
        relayers = list(objs)
        counts = {
            str(self.opts.verbose_name_plural): len(relayers),
            str(CallCount._meta.verbose_name_plural): CallCount.objects.filter(relayer__in=relayers).count(),
        }
        lacking = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return [str(relayer) for relayer in relayers], counts, lacking, []


def outcome(relayer: Relayer, form: EstimateForm) -> dict[str, Any]:
    """Estimate what the form asks for; give its items, or the error that a caller would get."""
    asked = {name: form.cleaned_data[name] for name in ("fee_token", "transaction")}
    try:
        found = estimate(RpcRelayer.of(relayer), network=relayer.network, **asked)
        return {"items": itemised.items(found)}
    except errors.RpcError as error:
        return {"error": error.body()}
    except DecryptionError:
        return {"error": errors.InternalError().body() | {"description": UNREADABLE}}
    except Exception:
        logger.exception("An estimate failed", extra={"fields": {"relayer": relayer.identifier}})
        return {"error": errors.InternalError().body()}
