"""The limit: how fast Python can be at all with the same queries and the same bytes in its answers.

No framework, no log line, no metrics, hardly any errors: a measure, not a model.
"""

import hmac
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

import orjson
from django.conf import settings
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from benchmarks.resources import RESOURCES, Resource
from relayer_service.server.rsgi import Application

AUTHENTICATE = """
    SELECT token.digest, token.pepper_id, token.enabled, token.expires_at, token.allowed_networks, auth_user.is_active
    FROM tokens_accesstoken AS token JOIN auth_user ON auth_user.id = token.user_id WHERE token.key = %s
"""

by_path = {resource.path: resource for resource in RESOURCES}


@cache
def pool() -> ConnectionPool:
    options = {"autocommit": True, "row_factory": dict_row}
    return ConnectionPool(settings.DATABASE_URL, min_size=1, max_size=20, kwargs=options, open=True)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    resource = by_path[environ["PATH_INFO"]]
    with pool().connection() as connection:
        if not authenticated(connection, environ["HTTP_AUTHORIZATION"]):
            start_response("401 Unauthorized", [("Content-Length", "0")])
            return []
        if environ["REQUEST_METHOD"] == "POST":
            status, body = "201 Created", create(connection, resource, environ)
        else:
            status, body = "200 OK", page(connection, resource, environ["QUERY_STRING"])
    text = orjson.dumps(body)
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]


def authenticated(connection: Any, header: str) -> bool:
    _, key, rest = header.split("_")
    token = connection.execute(AUTHENTICATE, [key]).fetchone()
    expected = hmac.new(settings.TOKEN_PEPPERS[token["pepper_id"]], rest[:-6].encode(), sha256).hexdigest()
    return token["enabled"] and token["is_active"] and hmac.compare_digest(expected, token["digest"])


def page(connection: Any, resource: Resource, query: str) -> dict[str, Any]:
    parameters = parse_qs(query)
    number, per_page = int(parameters["page"][0]), int(parameters["per_page"][0])
    rows = connection.execute(resource.page, {"limit": per_page, "offset": (number - 1) * per_page}).fetchall()
    total = connection.execute(resource.count).fetchone()["count"]
    return {
        "data": [without_unset(row, resource) for row in rows] if resource.json_text else rows,
        "error": "",
        "metadata": {"logs": [], "traces": []},
        "pagination": {"current_page": number, "per_page": per_page, "total_items": total},
        "success": True,
    }


def without_unset(row: dict[str, Any], resource: Resource) -> dict[str, Any]:
    row = {name: value for name, value in row.items() if value is not None}
    for name in resource.json_text:
        if name in row:
            row[name] = orjson.Fragment(row[name])
    return row


def create(connection: Any, resource: Resource, environ: dict[str, Any]) -> dict[str, Any]:
    sent = orjson.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in sent.items()}
    row = connection.execute(resource.insert, values).fetchone()
    return {"data": row, "error": "", "metadata": {"logs": [], "traces": []}, "success": True}


# As the service's own server calls it.
served = Application(application)
