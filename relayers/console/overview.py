"""What the overview shows of relayers: problems by network or signer, the card, and the step to the first one."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import CharField, Model, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from chain.networks import networks
from chain.nodes import failover
from notifications.console.overview import demo_webhook
from relayer_service.background.shares import Busy, waiting_for_others
from relayer_service.console.overview.attention import (
    LATE,
    NOT_SEVERE,
    UNKNOWN,
    AttentionSubject,
    Cause,
    Example,
    GroupedRows,
    counts_of,
    grouped,
    number_of,
    number_of_all,
    read_groups,
    read_once,
)
from relayer_service.console.overview.dashboard import Card, label, link
from relayer_service.console.overview.getting_started import DEMO, CannotSetUp, Demo, Step, add_page
from relayer_service.console.references import and_more
from relayer_service.database.clock import DatabaseNow
from relayer_service.database.literals import with_literals
from relayer_service.net.addresses import mask
from relayers.console.filters import RelayerStateFilter
from relayers.console.formatting import VARIANTS, balance_and_limit
from relayers.health.checking import FAILURES_TO_DISABLE
from relayers.health.probes import missing_address_reason
from relayers.health.runway import current_runway
from relayers.models import PROBLEMS, Relayer, RelayerHealth, health
from relayers.writes import RelayerWrite
from signers.models import Signer

# Counted in the index of one table where the state depends on no other.
COUNTED: dict[str, tuple[type[Model], Q]] = {
    **{name: (Relayer, condition) for name, condition in PROBLEMS.items()},
    "disabled": (RelayerHealth, health.DISABLED),
    "low balance": (RelayerHealth, health.LOW_BALANCE),
    "nodes failing": (RelayerHealth, health.NODES_FAILING),
}
NODES, ADDRESS, LOW, RUNWAY, NO_ADDRESS, LATE_CHECKS = (
    f"relayers.{name}" for name in ("nodes", "address", "low", "runway", "no_address", "late")
)
# What follows the network in the title, and the query of the list.
BY_NETWORK: dict[str, tuple[str, dict[str, str]]] = {
    NODES: (health.NO_NODE_ANSWERS, {"problem": health.NO_NODE_ANSWERS}),
    ADDRESS: (health.OTHER_ADDRESS, {"problem": health.OTHER_ADDRESS}),
    LOW: ("balance below the minimum", {"state": "low balance"}),
    RUNWAY: (health.BALANCE_USED_UP_SOON, {"problem": health.BALANCE_USED_UP_SOON}),
}
COLUMNS = [
    *("identifier", "name", "network", "policies", "reserve_text", "signer__type", "signer__last_error"),
    "masked_rpc_urls",
    *("health__balance_text", "health__balance_is_low", "health__disabled_reason_details"),
    *("health__outflow_days", "health__balance_hours"),
]
FAILED = f"Last check failed: no node returned the nonce. Disabled after {FAILURES_TO_DISABLE} consecutive failures."
MAX_NODES = 3
# States that staff set: not a problem.
CALM = {"paused"}
LOCAL_NETWORK, LOCAL_CHAIN_ID, TEST_NETWORK = "hardhat", 31337, "sepolia"
START = "No node of chain {} answers at {}. Start it with `make node` and try again. Nothing was created."
TAKEN = "A relayer with the ID demo exists on another network. Delete it first. Nothing was created."


def attention(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    found = read_groups(*(grouped(kind, *grouping) for kind, grouping in problems().items()))
    return AttentionSubject("relayers", [cause(rows) for rows in found], examples, relayers_of)


def problems() -> dict[str, tuple[Any, ...]]:
    """Return the rows of each kind, and how they are grouped: by what, their start, and whether they are severe."""
    rows = RelayerHealth.objects.all()
    failures = {name: rows.filter(with_literals(condition)) for name, condition in health.CHECK_FAILURES.items()}
    signer = Concat(Cast("signer_id", CharField()), Value(" "), "signer__identifier")
    return {
        NODES: (failures[health.NO_NODE_ANSWERS], "network", "failing_since", "system_disabled"),
        ADDRESS: (failures[health.OTHER_ADDRESS], "network", "failing_since", Value(1)),
        LOW: (rows.filter(health.LOW_BALANCE), "network", "low_since"),
        RUNWAY: (rows.filter(health.USED_UP_SOON), "network", UNKNOWN),
        NO_ADDRESS: (Relayer.objects.filter(with_literals(PROBLEMS["no address"])), signer, "created_at"),
        LATE_CHECKS: (rows.filter(due_at__lt=DatabaseNow() - LATE), Value(""), "due_at", NOT_SEVERE, UNKNOWN),
    }


def relayers_of(cause: Cause) -> QuerySet[Any, Any]:
    rows: QuerySet[Any] = problems()[cause.kind][0]
    if cause.kind == NO_ADDRESS:
        rows = rows.filter(signer=cause.group.partition(" ")[0])
    return (rows.filter(network=cause.network) if cause.network else rows).order_by("pk").values_list("pk", flat=True)


def cause(rows: GroupedRows) -> Cause:
    if rows.kind == LATE_CHECKS:
        reason = "Due for more than two minutes, as no worker has run them."
        return rows.cause("Late health checks", "check", list_url(), reason)
    if rows.kind == NO_ADDRESS:
        key, _, signer = rows.group.partition(" ")
        url = list_url("no address", signer__sequence__exact=key)
        return rows.cause(f"Relayers without an address: signer {signer}", "relayer", url)
    text, query = BY_NETWORK[rows.kind]
    url = list_url(network=rows.group, **query)
    return rows.cause(f"{rows.group}: {text}", "relayer", url, network=rows.group)


def counts_by_state() -> dict[str, int]:
    """Return the number of relayers, of all and by state."""
    counts = {
        name: number_of(model._default_manager.filter(with_literals(condition)))
        for name, (model, condition) in COUNTED.items()
    }
    return counts_of({"all": number_of_all(Relayer), **counts})


def examples(causes: Sequence[Cause]) -> dict[str, Example]:
    shown = Relayer.objects.select_related("signer", "health").only(*COLUMNS)
    rows = shown.in_bulk([each.first for each in causes if each.first])
    return {each.key: example(each.kind, rows[each.first]) for each in causes if each.first in rows}


def example(kind: str, relayer: Relayer) -> Example:
    page = reverse("admin:relayers_relayer_change", args=[relayer.pk])
    return Example(f"{relayer.name} ({relayer.identifier})", page, reason(kind, relayer))


def reason(kind: str, relayer: Relayer) -> str:
    if kind == LOW:
        return format_html("Its balance is {}.", balance_and_limit(relayer))
    if kind == RUNWAY:
        lasting = current_runway(relayer)
        return f"At this rate used up in {lasting.text}." if lasting else "Nothing has left it in the last days."
    if kind == NO_ADDRESS:
        return missing_address_reason(relayer.signer)
    urls = node_urls(relayer) if kind == NODES else []
    nodes = f" Nodes: {', '.join(urls[:MAX_NODES])} {and_more(len(urls) - MAX_NODES)}" if urls else ""
    return f"{relayer.health.disabled_reason_details or FAILED}{nodes}".rstrip()


def node_urls(relayer: Relayer) -> list[str]:
    """Return the masked URLs of the nodes that a relayer reads from."""
    known = networks().get(relayer.network)
    own = [entry["url"] for entry in relayer.masked_rpc_urls if entry["weight"]]
    return own or [mask(url) for url in (known.rpc_urls if known else ())]


def list_url(state: str = "", **query: str) -> str:
    chosen = ({"state": state} if state else {}) | query
    page = reverse("admin:relayers_relayer_changelist")
    return f"{page}?{urlencode(chosen)}" if chosen else page


def card(request: HttpRequest) -> Card | None:
    """Return the card with the number of relayers, in all and by state."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    counts = read_once(request, counts_by_state)
    page = reverse("admin:relayers_relayer_changelist")
    if not counts["all"]:
        return Card("Relayers", empty="There are no relayers yet.", url=page)
    rows = [[link(RelayerStateFilter.label(name), list_url(name)), marked(name, counts[name])] for name in COUNTED]
    return Card("Relayers", [[link("All", page), f"{counts['all']:,}"], *rows], url=page)


def marked(name: str, count: int) -> str:
    return f"{count:,}" if name in CALM or not count else label(f"{count:,}", VARIANTS[name])


def step(request: HttpRequest) -> Step:
    return Step(
        "relayer",
        "Add a relayer",
        "Sends transactions from the signer's account on a network.",
        ["relayers.add_relayer", "signers.view_signer"],
        Relayer.objects.all(),
        relayer_page,
        set_up,
        needs="signer",
        check=check,
    )


def relayer_page() -> str:
    """Return the add page with the newest signer, on the local chain if this is a developer's machine."""
    newest = Signer.objects.order_by("-sequence").values_list("pk", flat=True).first()
    network = LOCAL_NETWORK if settings.LOCAL else TEST_NETWORK
    values = {"identifier": "relayer-1", "name": "Relayer 1", "network": network}
    return add_page("relayers_relayer", **values, signer=str(newest)) if newest else ""


def check() -> None:
    """Raise an error unless the local node answers: the demo's key is public, and only for that chain."""
    network = networks().get(LOCAL_NETWORK)
    urls = network.rpc_urls if network and network.chain_id == LOCAL_CHAIN_ID else ()
    try:
        with waiting_for_others():
            found = failover.chain_ids(urls)
    except Busy:
        found = []
    if LOCAL_CHAIN_ID not in found:
        raise CannotSetUp(START.format(LOCAL_CHAIN_ID, ", ".join(urls) or "any URL"))


def set_up(demo: Demo) -> None:
    found = Relayer.objects.filter(identifier=DEMO).first()
    if found and found.expected_chain_id != LOCAL_CHAIN_ID:
        raise CannotSetUp(TAKEN)
    if found is None:
        values = {
            "id": DEMO,
            "name": "Demo",
            "network": LOCAL_NETWORK,
            "network_type": "evm",
            "signer_id": demo.rows["Signer"],
            "notification_id": demo_webhook(),
            "policies": {},
        }
        found = RelayerWrite.new(values).save()
    demo.rows["Relayer"] = found
