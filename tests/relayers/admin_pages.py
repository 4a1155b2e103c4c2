"""What a browser would send from the pages of a relayer, and what they answer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch

from django.template.response import SimpleTemplateResponse
from django.test import Client

from relayers.models import Relayer
from tests.relayers import factories

LIST = "/admin/relayers/relayer/"
ADD = f"{LIST}add/"
# URLs with keys in them.
A, B, C = "https://a.example.com/key-of-a", "https://b.example.com/key-of-b", "https://c.example.com/key-of-c"


class FormReader(HTMLParser):
    """Collects the fields of one form, but for the buttons and for what is inside a template."""

    def __init__(self, form_id: str) -> None:
        super().__init__()
        self.form_id = form_id
        self.fields: dict[str, str] = {}
        self.inside = self.in_template = False
        self.select = self.textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, kind = given.get("name") or "", given.get("type")
        if tag == "form":
            self.inside = given.get("id") == self.form_id
        elif tag == "template":
            self.in_template = True
        if not self.inside or self.in_template:
            return
        if tag == "input" and name and kind not in {"submit", "checkbox", "radio"}:
            self.fields[name] = given.get("value") or ""
        elif tag == "input" and kind in {"checkbox", "radio"} and "checked" in given:
            self.fields[name] = given.get("value") or "on"
        elif tag == "select":
            self.select = name
        elif tag == "option" and self.select and "selected" in given:
            self.fields[self.select] = given.get("value") or ""
        elif tag == "textarea":
            self.textarea = name
            self.fields[name] = ""

    def handle_data(self, data: str) -> None:
        if self.textarea:
            self.fields[self.textarea] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self.textarea:
            # A browser leaves out the line break after the opening tag.
            self.fields[self.textarea] = self.fields[self.textarea].removeprefix("\n").removeprefix("\r\n")
            self.textarea = ""
        elif tag == "select":
            self.select = ""
        elif tag == "template":
            self.in_template = False
        elif tag == "form":
            self.inside = False


def fields(page: Any) -> dict[str, str]:
    """The fields of a relayer's page with what is in them."""
    return read_fields(page.content.decode(), "relayer_form")


def read_fields(html: str, form_id: str) -> dict[str, str]:
    """Return the fields of a form with what is in them, without those of rows that are to be copied."""
    reader = FormReader(form_id)
    reader.feed(html)
    return {
        name: value
        for name, value in reader.fields.items()
        if name != "csrfmiddlewaretoken" and "__prefix__" not in name
    }


def without_html() -> AbstractContextManager[Any]:
    """Leave out the HTML of pages, which takes most of the time: for tests of what a form does."""
    return patch.object(SimpleTemplateResponse, "rendered_content", "")


def open_form(client: Client, path: str) -> dict[str, str]:
    """Return the fields of a page with what is in them, for which only these are rendered."""
    with without_html():
        data: Any = client.get(path).context_data
    html = [
        str(column.field)
        for fieldset in data["adminform"]
        for line in fieldset
        for column in line
        if not column.is_readonly
    ]
    for inline in data["inline_admin_formsets"]:
        html += [str(inline.formset.management_form), *(str(field) for form in inline.formset for field in form)]
    return read_fields(f"<form id=opened>{''.join(html)}</form>", "opened")


def send_form(client: Client, path: str, changes: dict[str, Any]) -> Any:
    """Open a page, change some fields and send it; the answer has no HTML."""
    typed = open_form(client, path) | changes
    with without_html():
        return client.post(path, typed, follow=True)


def change(relayer: Relayer) -> str:
    return f"{LIST}{relayer.pk}/change/"


def add(client: Client, **changes: Any) -> Any:
    """Fill in the add page and send it; the answer has no HTML."""
    values = {"identifier": "relayer-1", "name": "Relayer 1", "network": "sepolia", "signer": factories.signer().pk}
    return send_form(client, ADD, values | changes)


def edit(client: Client, relayer: Relayer, **changes: Any) -> Any:
    """Open the change page, change some fields and send it; the answer has no HTML."""
    return send_form(client, change(relayer), changes)


def errors(page: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = page.context_data["adminform"].form.errors
    return found


def row_errors(page: Any) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = page.context_data["adminform"].form.rows["custom_rpc_urls"].errors
    return found


def rpc_url(url: str, weight: int = 100) -> dict[str, Any]:
    return {"url": url, "weight": weight}
