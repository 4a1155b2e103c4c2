"""A plain HTTP client: what a program that reads the contract would send, and what it would get."""

import http.client
import json
from dataclasses import dataclass
from typing import Any


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
    port: int
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, raw, {name: value for name, value in sent.items() if value})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **kwargs: Any) -> Answer:
        return self("GET", path, **kwargs)

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self("POST", path, body, **kwargs)

    def patch(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self("PATCH", path, body, **kwargs)
