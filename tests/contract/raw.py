"""Requests byte by byte, for what no HTTP library agrees to send."""

import socket
from http.client import HTTPResponse

from tests.api import Answer
from tests.concurrency import PATIENCE_SECONDS


def request(
    method: bytes, path: bytes, headers: bytes = b"", body: bytes = b"", *, host: bytes = b"127.0.0.1"
) -> bytes:
    """Write a request; `headers` are whole lines, each with its end."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    head = b"%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n" % (method, path, host)
    return head + headers + length + b"\r\n" + body


def send(port: int, data: bytes, *, end: bool = False) -> Answer:
    """Send bytes and read one answer; `end` tells the server, which waits for more, that none will come."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        response = HTTPResponse(connection)
        try:
            response.begin()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            response.close()


def bearer(token: str) -> bytes:
    return b"Authorization: Bearer %s\r\n" % token.encode()


def refused_by_server(answer: Answer) -> bool:
    """Return whether the server's own parser refused a request, which then no application has seen."""
    return "x-request-id" not in answer.headers and answer.status in {400, 414, 431} and answer.text == b""
