"""A program that reads the contract: what it would send, and what it would get."""

import http.client
import json
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import unquote_to_bytes

from django.test import Client
from django.test.client import FakePayload

from tests.concurrency import PATIENCE_SECONDS


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.text)


@dataclass
class Api:
    """Calls the service in this process: its URLs, middleware and views, without a server in between."""

    token: str = ""

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request; `body` goes as JSON, `raw` as it is."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            raw = json.dumps(body).encode()
        if raw is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        return self.exchange(method, path, raw, sent)

    def exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """Make the request as a server hands it over: the path decoded, header values as Latin-1 text."""
        location, _, query = path.partition("?")
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": unquote_to_bytes(location).decode("latin-1"),
            "QUERY_STRING": query,
            "CONTENT_TYPE": headers.pop("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body or b"")),
            "wsgi.input": FakePayload(body or b""),
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
        }
        response = Client(raise_request_exception=False).request(**environ)
        return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.getvalue())

    def with_token(self, token: str) -> Self:
        return replace(self, token=token)

    def get(self, path: str, **kwargs: Any) -> Answer:
        return self("GET", path, **kwargs)

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self("POST", path, body, **kwargs)

    def patch(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self("PATCH", path, body, **kwargs)


@dataclass
class WireApi(Api):
    """Calls the real web server over HTTP, for what the server and the wire decide."""

    port: int = 0

    def exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()
