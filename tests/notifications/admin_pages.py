"""What tests read from the admin's pages, and who opens them."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.test import Client


def staff_who_may(client: Client, *permissions: str) -> Client:
    user, _ = User.objects.get_or_create(username="vera", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


def told(page: Any) -> list[str]:
    return [re.sub("<[^>]*>", "", str(message)) for message in get_messages(page.wsgi_request)]


def hidden_fields(page: Any) -> dict[str, str]:
    """What the confirmation page's button sends."""
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.content.decode())
    return {name: value for name, value in fields if name != "csrfmiddlewaretoken"}


def confirm(client: Client, url: str, form: dict[str, Any], **answers: str) -> Any:
    """Choose an action of a list, and press the button of the page that asks."""
    return client.post(url, hidden_fields(client.post(url, form)) | answers, follow=True)


def asked(page: Any) -> list[list[str]]:
    """The table of the confirmation page, without its links."""
    return [[re.sub("<[^>]*>", "", str(cell)).strip() for cell in row] for row in page.context["table"].rows]


def buttons(page: Any) -> list[str]:
    return [item["title"] for item in page.context["actions_detail"]]


def shown(page: Any, field: str) -> str:
    """What a page shows of a field that cannot be changed there."""
    for line in (line for fieldset in page.context["adminform"] for line in fieldset):
        for each in line:
            if each.is_readonly and each.field["name"] == field:
                return " ".join(each.contents().split())
    raise AssertionError(f"there is no field {field}")


def rows(page: Any) -> list[list[str]]:
    """The texts of a list's cells, without the boxes to tick."""
    lines = re.findall(r"<tr\b.*?</tr>", page.content.decode().partition("<tbody")[2], re.DOTALL)
    found = []
    for line in lines:
        cells = re.findall(r"<t[dh]\b(?:(?!action-checkbox).)*?>(.*?)</t[dh]>", line, re.DOTALL)
        texts = [" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in cells]
        found.append([text for text in texts if text])
    return found
