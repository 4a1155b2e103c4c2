"""What a browser would send from the pages of a relayer, and what they answer."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

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
        if tag == "input" and name and kind not in {"submit", "checkbox"}:
            self.fields[name] = given.get("value") or ""
        elif tag == "input" and kind == "checkbox" and "checked" in given:
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
    reader = FormReader("relayer_form")
    reader.feed(page.content.decode())
    return {name: value for name, value in reader.fields.items() if name != "csrfmiddlewaretoken"}


def change(relayer: Relayer) -> str:
    return f"{LIST}{relayer.pk}/change/"


def add(client: Client, **changes: Any) -> Any:
    """Fill in the add page and send it."""
    values = {"identifier": "relayer-1", "name": "Relayer 1", "network": "sepolia", "signer": factories.signer().pk}
    return client.post(ADD, fields(client.get(ADD)) | values | changes, follow=True)


def edit(client: Client, relayer: Relayer, **changes: Any) -> Any:
    """Open the change page, change some fields and send it."""
    return client.post(change(relayer), fields(client.get(change(relayer))) | changes, follow=True)


def errors(page: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = page.context["adminform"].form.errors
    return found


def row_errors(page: Any) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = page.context["adminform"].form.rows["custom_rpc_urls"].errors
    return found


def rpc_url(url: str, weight: int = 100) -> dict[str, Any]:
    return {"url": url, "weight": weight}
