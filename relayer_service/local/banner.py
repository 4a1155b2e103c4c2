"""The banner of `make run`: the URLs and, on the first run, login and token."""

import io
import secrets

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction

from relayer_service import extensions


def print_banner() -> None:
    reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(settings.HOST, settings.HOST)  # noqa: S104  # a comparison
    url = f"http://{reachable}:{settings.PORT}"
    lines = [f"Service      {url}", f"Admin        {url}/admin/", f"API docs     {url}/api/docs"]
    if settings.EXTENSIONS:
        lines.append(f"Extensions   {', '.join(settings.EXTENSIONS)} (disable them with: EXTENSIONS= make run)")
    else:
        lines.append(f"Extensions   none (enable them with: EXTENSIONS={','.join(extensions.BUILT)} make run)")
    # Created last and printed immediately: after a failed start the next one creates and prints them.
    if created := create_admin():
        password, token, explanation = created
        lines += [
            f"Admin login  admin / {password}",
            f"Token        {token}",
            "             (shown only once)",
            f"             {explanation}",
            f"Try          curl -H 'Authorization: Bearer {token}' {url}/api/v1/signers",
        ]
    else:
        where = "" if settings.DATA_DIR == settings.BASE_DIR / "var" else f"DATA_DIR={settings.DATA_DIR} "
        lines.append(f"New token    {where}PROFILE=local .venv/bin/python manage.py issue_token NAME --scope manage")
    print("\n" + "\n".join(lines) + "\nPress Ctrl-C to stop.\n", flush=True)


def create_admin() -> tuple[str, str, str] | None:
    """Create the first user; return its password, its token and a description of the token's scopes, which are all.

    Return None if there already is a user.
    """
    users = get_user_model().objects
    if users.exists():
        return None
    password = secrets.token_urlsafe(15)
    with transaction.atomic():
        users.create_superuser("admin", password=password)
        output, explanation = io.StringIO(), io.StringIO()
        scopes = extensions.available_scopes()
        call_command("issue_token", "first token", user="admin", scope=scopes, stdout=output, stderr=explanation)
    return password, output.getvalue().strip(), explanation.getvalue().strip()
