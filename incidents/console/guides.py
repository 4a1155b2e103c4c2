"""Where staff act on an incident, by its kind, and the section of the runbooks that says how."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.text import slugify

from incidents.kinds import Kind
from incidents.models import Incident
from relayer_service.console.confirmation import Table
from relayer_service.extensions import is_enabled

RUNBOOKS_FILE = settings.BASE_DIR / "docs" / "runbooks.md"
# Their Markdown: items of a numbered list, links (to other sections and documents), bold and code.
ITEM = re.compile(r"^(\d+)\. ", re.M)
LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
MARKED = re.compile(r"(\*\*.+?\*\*|`.+?`|\[[^]]+\]\(#[^)]+\))")
# The page that shows them all, each under the name of its link in the file.
PAGE = "admin:incidents_incident_runbooks"


class Place(NamedTuple):
    """A page of the admin, which may be limited to the network of the incident."""

    text: str
    page: str
    permission: str
    query: dict[str, str] = {}
    has_networks: bool = True

    def url(self, network: str) -> str:
        query = self.query | ({"network": network} if network and self.has_networks else {})
        page = reverse(f"admin:{self.page}")
        return f"{page}?{urlencode(query)}" if query else page


def changelist(text: str, app: str, model: str, *, has_networks: bool = True, **query: str) -> Place:
    return Place(text, f"{app}_{model}_changelist", f"{app}.view_{model}", query, has_networks)


NODES = Place("Networks and nodes", "relayers_relayer_nodes", "relayers.view_relayer", has_networks=False)
RELAYERS = changelist("Relayers", "relayers", "relayer")
LANES = changelist("Lanes", "transactions", "lane")
TRANSACTIONS = changelist("Transactions", "transactions", "transaction")
FUNDS = changelist("Relayers that wait for funds", "relayers", "relayer", state="waiting for funds")
FUNDS_LANES = changelist("Their lanes", "transactions", "lane", state="waiting", waiting="funds")
LOW = changelist("Relayers with a low balance", "relayers", "relayer", state="low balance")
PENDING = changelist("Pending transactions", "transactions", "transaction", status="pending")
WEBHOOKS = changelist("Failing webhooks", "notifications", "notification", has_networks=False, state="failing")
DELIVERIES = changelist("Pending deliveries", "notifications", "delivery", has_networks=False, state__exact="pending")
SIGNERS = changelist("Signers", "signers", "signer", has_networks=False)
PERIODIC = changelist("Periodic work", "relayer_service", "periodicrun", has_networks=False)
HELD = changelist("Held lanes", "transactions", "lane", state="held")
FAILED = changelist("Failed transactions", "transactions", "transaction", status="failed", finished="2-days")
# The section of docs/runbooks.md, and the pages.
GUIDES: dict[str, tuple[str, list[Place]]] = {
    Kind.NODE_DOWN: ("A node is down", [NODES, RELAYERS, LANES]),
    Kind.CHAIN_HALTED: ("The chain is halted", [NODES, LANES]),
    Kind.STUCK: ("A transaction is stuck", [LANES, TRANSACTIONS, NODES]),
    Kind.FUNDS: ("A relayer is out of funds", [FUNDS, FUNDS_LANES]),
    Kind.LOW_BALANCE: ("A relayer is out of funds", [LOW]),
    Kind.LIMIT: ("A limit is reached", [PENDING, RELAYERS]),
    Kind.WEBHOOK: ("A webhook fails", [WEBHOOKS, DELIVERIES]),
    Kind.SIGNER: ("A signer fails", [SIGNERS, LANES]),
    Kind.WORKER: ("A worker is silent", [PERIODIC]),
    Kind.HELD_LANE: ("A lane is held", [HELD]),
    Kind.CONTRADICTION: ("A node lies", [NODES, TRANSACTIONS]),
    Kind.FAILING: ("Transactions fail", [FAILED]),
}


def guide(request: HttpRequest, incident: Incident) -> dict[str, Any]:
    """Return the pages that the user may view, and the runbook."""
    section, pages = GUIDES.get(incident.kind, ("", []))
    places = [
        (place.text, place.url(incident.network))
        for place in pages
        if request.user.has_perm(place.permission)
        and (is_enabled("transactions") or not place.permission.startswith("transactions."))
    ]
    return {"places": places, "runbook": section, "blocks": runbook(section)}


def runbook(section: str) -> list[dict[str, Any]]:
    return next((found for title, _, found in runbooks() if title == section), [])


@cache
def runbooks() -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Return title, anchor, and paragraphs, numbered lists and tables of each section; none without the file."""
    try:
        text = RUNBOOKS_FILE.read_text(encoding="utf-8")
    except OSError:
        text = ""
    sections = (section.partition("\n") for section in text.split("\n## ")[1:])
    return [(title, slugify(title), list(blocks(body))) for title, _, body in sections]


def blocks(text: str) -> Iterator[dict[str, Any]]:
    for block in text.strip().split("\n\n"):
        if numbers := ITEM.findall(block):
            yield {"start": numbers[0], "steps": [inline(item) for item in ITEM.split(block)[2::2]]}
        elif block.startswith("|"):
            headers, _, *rows = ([inline(cell) for cell in line.split("|")[1:-1]] for line in block.splitlines())
            yield {"table": Table(headers, rows)}
        elif not block.startswith("!["):
            yield {"text": inline(block)}


def inline(text: str) -> str:
    """Return a text of the runbooks as HTML."""
    text = LINK.sub(lambda link: link[0] if link[2].startswith("#") else link[1], text)
    parts = MARKED.split(" ".join(text.split()))
    return format_html_join("", "{}", ([marked(part)] for part in parts))


def marked(part: str) -> str:
    if link := LINK.fullmatch(part):
        return format_html('<a class="underline" href="{}{}">{}</a>', reverse(PAGE), link[2], link[1])
    if part.startswith("**"):
        return format_html("<strong>{}</strong>", part.strip("*"))
    return format_html("<code>{}</code>", part.strip("`")) if part.startswith("`") else part
