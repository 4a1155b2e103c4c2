"""What tests read from the admin's pages, and who opens them."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client


def staff_who_may(client: Client, *permissions: str) -> Client:
    user = User.objects.create_user("vera", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


def told(page: Any) -> list[str]:
    return [re.sub("<[^>]*>", "", str(message)) for message in page.context["messages"]]


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
