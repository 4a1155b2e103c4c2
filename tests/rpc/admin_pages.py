"""What a browser would send from the pages of a fee token and of a relayer, and what they answer."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client

from rpc.models import FeeToken
from tests.relayers.admin_pages import read_fields, send_form
from tests.rpc import factories

LIST = "/admin/rpc/feetoken/"
ADD = f"{LIST}add/"


def page_of(token: FeeToken, page: str = "change") -> str:
    return f"{LIST}{token.pk}/{page}/"


def fields(page: Any) -> dict[str, str]:
    """The fields of a token's page with what is in them, without those of the row that is to be copied."""
    return read_fields(page.content.decode(), "feetoken_form")


def add(client: Client, **changes: Any) -> Any:
    """Fill in the add page with a token of a fixed rate and send it; the answer has no HTML."""
    token = {"network": "hardhat", "symbol": "USDC", "address": factories.TOKEN}
    source = {"sources-0-kind": "fixed", "sources-0-rate_text": "3000", "sources-0-max_age_seconds": "3600"}
    return send_form(client, ADD, token | source | changes)


def edit(client: Client, token: FeeToken, **changes: Any) -> Any:
    """Open the change page, change some fields and send it; the answer has no HTML."""
    return send_form(client, page_of(token), changes)


def errors(page: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = page.context_data["adminform"].form.errors
    return found


def source_errors(page: Any) -> list[dict[str, list[str]]]:
    (formset,) = page.context_data["inline_admin_formsets"]
    found: list[dict[str, list[str]]] = formset.formset.errors
    return found


def text(html: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", html).split())
