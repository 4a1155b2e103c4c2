"""The page of networks and nodes, with its buttons: check a node now, take it out for an hour, put it back."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import wraps
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.timezone import localtime

from chain.networks import networks
from chain.nodes import failover
from chain.nodes.plausibility import halt_limit
from relayer_service.audit.recording import created, deleted, record
from relayer_service.background.shares import waiting_for_others
from relayer_service.console import confirmation
from relayer_service.console.base import ResourceAdmin
from relayer_service.console.confirmation import PendingAction, ReasonForm, Table
from relayer_service.console.dates import ago, to_the_minute
from relayer_service.console.overview.dashboard import label
from relayer_service.storage.selections import Selection
from relayers import nodes
from relayers.guards import get_guard
from relayers.models.nodes import NodeOutage
from relayers.nodes import Node, State, Statistics

PAGE = "admin:relayers_relayer_nodes"
CHECK, TAKE_OUT = "relayers.check_relayer", "relayers.take_out_node"
LENGTH = timedelta(hours=1)
EFFECT = (
    "It is called only after all other nodes of a relayer, by every process within a few seconds. A relayer without "
    "another node still uses it. It is put back by itself after 1 hour."
)


def node_view(permission: str, *methods: str) -> Callable[..., Any]:
    """Make a method the view of one node that requires a permission. None redirects to the page of all nodes."""

    def decorate(view: Callable[[Any, HttpRequest, Node], HttpResponse | None]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def checked(model_admin: "NodesAdmin", request: HttpRequest, key: str) -> HttpResponse:
            if not model_admin.has_view_permission(request) or not request.user.has_perm(permission):
                raise PermissionDenied
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            node = nodes.read_inventory().find(key)
            if node is None:
                raise Http404
            return view(model_admin, request, node) or HttpResponseRedirect(reverse(PAGE))

        return checked

    return decorate


class NodesAdmin(ResourceAdmin):
    def get_urls(self) -> list[Any]:
        wrap, name = self.admin_site.admin_view, "relayers_relayer_nodes"
        views: dict[str, Callable[..., HttpResponse]] = {
            "check": self.check_node,
            "take_out": self.take_out_node,
            "put_back": self.put_back_node,
        }
        own = [path(f"nodes/<str:key>/{view}/", wrap(run), name=f"{name}_{view}") for view, run in views.items()]
        return [path("nodes/", wrap(self.nodes_view), name=name), *own, *super().get_urls()]

    def nodes_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        fleet = nodes.read_inventory()
        state = nodes.read_state(node.key for node in fleet.nodes)
        halted = get_guard().halted_chains()
        context = {
            **self.admin_site.each_context(request),
            "title": "Networks and nodes",
            "networks": [
                (network, [shown(request, node, state, halted) for node in found])
                for network, found in groupby(fleet.nodes, key=lambda node: node.network)
            ],
            "fleet": fleet,
            "max_sets": nodes.MAX_SETS,
        }
        return TemplateResponse(request, "admin/relayers/relayer/nodes.html", context)

    @node_view(CHECK, "POST")
    def check_node(self, request: HttpRequest, node: Node) -> None:
        url, chain_id = nodes.url_of(node)
        if node.is_private or not url:
            text = (
                "a private node is only sent to" if node.is_private else "its URL cannot be decrypted or has changed"
            )
            messages.error(request, f"{node.url} was not checked: {text}.")
            return
        with waiting_for_others():
            status = failover.status(url, chain_id)
        nodes.pending.flush()
        if status.error:
            messages.error(request, f"{status.url} failed: {status.error}.")
        else:
            text = f"{status.url} answered in {status.milliseconds} ms; head block {status.head_block:,}."
            messages.success(request, text)

    @node_view(TAKE_OUT, "GET", "POST")
    def take_out_node(self, request: HttpRequest, node: Node) -> HttpResponse | None:
        form = ReasonForm(request.POST if request.method == "POST" else None, required=True)
        if not form.is_valid():
            return self._ask(request, node, "Take out for 1 h", EFFECT, form)
        until = take_out(node, request.user.get_username(), form.cleaned_data["reason"])
        messages.success(request, f"{node.url} is taken out until {to_the_minute(until)}.")
        return None

    @node_view(TAKE_OUT, "GET", "POST")
    def put_back_node(self, request: HttpRequest, node: Node) -> HttpResponse | None:
        form = ReasonForm(request.POST if request.method == "POST" else None, required=False)
        if not form.is_valid():
            return self._ask(request, node, "Put back", "It is called as before, within a few seconds.", form)
        if put_back(node, form.cleaned_data["reason"]):
            messages.success(request, f"{node.url} is put back.")
        else:
            messages.info(request, f"{node.url} was not taken out.")
        return None

    def _ask(self, request: HttpRequest, node: Node, title: str, text: str, form: ReasonForm) -> HttpResponse:
        pending = PendingAction(Selection.from_keys([]), request.method == "POST", reverse(PAGE))
        table = Table(["Node", "Network", "Relayers"], [[node.url, node.network, f"{node.relayers:,}"]])
        return confirmation.ask(request, self, pending, title, [text], table, form)


def take_out(node: Node, user: str, reason: str) -> datetime:
    """Take a node out for an hour from now; return until when."""
    until = timezone.now() + LENGTH
    values = {"url": node.url, "network": node.network, "until": until, "by": user, "reason": reason}
    with transaction.atomic():
        row, _ = NodeOutage.objects.update_or_create(node=node.key, defaults=values)
        record([created(row, reason)])
    nodes.read_outages()
    return until


def put_back(node: Node, reason: str) -> bool:
    """Put a node back; return False if it was not taken out."""
    with transaction.atomic():
        row = NodeOutage.objects.select_for_update().filter(node=node.key, until__gt=timezone.now()).first()
        if row is not None:
            record([deleted(row, reason)])
            row.delete()
    nodes.read_outages()
    return row is not None


def shown(request: HttpRequest, node: Node, state: State, halted: Collection[int]) -> dict[str, Any]:
    """Return the cells and buttons of a node."""
    found, outage = state.statistics.get(node.key, Statistics()), state.outages.get(node.key)
    total = found.total
    may_check = request.user.has_perm(CHECK) and not node.is_private
    back = "put_back" if outage else "take_out"
    return {
        "url": node.url,
        "kind": " ".join(["private"] * node.is_private + ["custom"] * (node.example is not None)),
        "labels": [state_label(node, found, halted), *held_back(node, state)],
        "detail": detail(found, outage),
        "p50": total.latency(0.5),
        "p95": total.latency(),
        "errors": f"{found.failed.calls / total.calls:.1%} of {total.calls:,}" if total.calls else "-",
        "head": f"{age(found):,} s" if found.answered.head_at else "-",
        "head_number": found.answered.head,
        "relayers": f"{node.relayers:,}",
        "relayers_url": f"{reverse('admin:relayers_relayer_changelist')}?{urlencode({'network': node.network})}",
        "check_url": reverse(f"{PAGE}_check", args=[node.key]) if may_check else "",
        "move_url": reverse(f"{PAGE}_{back}", args=[node.key]) if request.user.has_perm(TAKE_OUT) else "",
        "move": "Put back" if outage else "Take out for 1 h",
    }


def state_label(node: Node, found: Statistics, halted: Collection[int]) -> str:
    if not found.total.calls:
        return label("no calls yet", "default")
    fault = fault_of(node, found, halted)
    return label(fault, "danger") if fault else label("ok", "success")


def fault_of(node: Node, found: Statistics, halted: Collection[int]) -> str:
    """Return what is wrong with a node, or "". Where blocks are mined on demand, only a halted chain is."""
    known = networks().get(node.network)
    max_age = known.max_head_age_seconds if known else None
    is_watched = known is not None and (max_age is not None or known.chain_id in halted)
    if found.is_failing:
        return "failing"
    head_at, last_at = found.answered.head_at, found.answered.last_at
    age_when_read = last_at - head_at if head_at and last_at else timedelta()
    if known is not None and is_watched and age_when_read > halt_limit(known):
        return f"no new block for {age_when_read // timedelta(minutes=1)} min"
    return "behind" if max_age is not None and head_at and age(found) > max_age else ""


def faulty_nodes(network: str) -> list[tuple[str, str, str]]:
    """Return the masked URL, the fault and the details of each node of a network that does not work."""
    found_nodes, halted = nodes.read_inventory(network=network).nodes, get_guard().halted_chains()
    state = nodes.read_state(node.key for node in found_nodes)
    return [
        (node.url, fault, detail(found, state.outages.get(node.key)))
        for node in found_nodes
        if (found := state.statistics.get(node.key)) and (fault := fault_of(node, found, halted))
    ]


def held_back(node: Node, state: State) -> list[str]:
    until, outage = state.pauses.get(node.key), state.outages.get(node.key)
    breaker = [label(f"circuit open until {localtime(until):%H:%M:%S}", "warning")] if until else []
    return [*breaker, *([label(f"taken out until {localtime(outage.until):%H:%M}", "warning")] if outage else [])]


def detail(found: Statistics, outage: NodeOutage | None) -> str:
    texts = [f"{outage.by}: {outage.reason}"] if outage else []
    if found.is_failing:
        answered_at = found.answered.last_at
        answered = f"last answer {ago(answered_at)}" if answered_at else "no answer in the last hour"
        texts = [f"Last error: {found.failed.last_fault}", answered, *texts]
    return "; ".join(texts)


def age(found: Statistics) -> int:
    head_at = found.answered.head_at
    return max(0, round((timezone.now() - head_at).total_seconds())) if head_at else 0
