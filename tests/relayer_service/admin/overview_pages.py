"""What the overview says, as staff read it."""

import json
import re
from html import unescape
from types import SimpleNamespace
from typing import Any

from django.test import Client

LINE = re.compile(r"<(h3|li|p)\b[^>]*>(.*?)</\1>|<tr>(.*?)</tr>", re.DOTALL)
LINK = re.compile(r'<a class="underline" href="([^"]*)">(.*?)</a>', re.DOTALL)


def text(markup: str) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", " ", markup)).split())


def rendered(client: Client) -> Any:
    """Return a client that has the overview as it is now, for the functions below."""
    page = client.get("/admin/")
    return SimpleNamespace(get=lambda path: page)


def part(client: Client, name: str) -> str:
    """Return the markup of one part of the overview: `Needs attention`, `Checked`, or the title of a card."""
    page = client.get("/admin/").content.decode()
    found = re.search(rf'<(div|p)[^>]* ?data-part="{re.escape(name)}">(.*?)</\1>', page, re.DOTALL)
    assert found, f"there is no part {name}"
    return found.group(2)


def chart(client: Client, card: str) -> dict[str, list[int | None]]:
    """Return what the chart of a card shows by hour, by its labels."""
    page = client.get("/admin/").content.decode().partition(f'data-part="{card}"')[2]
    found = re.search('data-value="([^"]*)"', page)
    assert found, f"{card} has no chart"
    return {item["label"]: item["data"] for item in json.loads(unescape(found.group(1)))["datasets"]}


def parts(client: Client) -> list[str]:
    return re.findall(r'data-part="([^"]*)"', client.get("/admin/").content.decode())


def lines(markup: str) -> list[str]:
    return [text(found.group(2) or found.group(3)) for found in LINE.finditer(markup)]


BUTTON = re.compile('<details class="acknowledge">.*?</details>|<form.*?</form>', re.DOTALL)


def attention(client: Client) -> list[str]:
    """Return the rows of causes, without their buttons."""
    return lines(BUTTON.sub("", part(client, "Needs attention")))


def acknowledged(client: Client) -> list[str]:
    return lines(BUTTON.sub("", part(client, "Acknowledged")))


def posted(client: Client, title: str) -> dict[str, str]:
    """Return what the button of a cause posts."""
    for row in part(client, "Needs attention").split("<li>"):
        if title in text(row):
            return dict(re.findall(r'<input type="hidden" name="(cause|number|severe)" value="([^"]*)">', row))
    raise AssertionError(f"there is no cause {title}")


def rows(client: Client, card: str) -> list[list[str]]:
    """Return the texts of a card's cells."""
    cells = (re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in part(client, card).split("</tr>"))
    return [[text(cell) for cell in row] for row in cells if row]


def links(markup: str) -> dict[str, str]:
    """Return where each link leads, by its text."""
    return {text(name): unescape(url) for url, name in LINK.findall(markup)}
