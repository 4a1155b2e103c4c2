"""The metrics of a process that answers no requests, over HTTP, for the networks in METRICS_ALLOW."""

import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.conf import settings

from relayer_service.net import incoming
from relayer_service.observability import metrics


class MetricsHandler(BaseHTTPRequestHandler):
    # A client that sends nothing is dropped after so many seconds.
    timeout = 10

    def do_GET(self) -> None:  # the name is http.server's
        if self.path != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = metrics.own_exposition()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", metrics.CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is http.server's
        """Log nothing: a scrape every few seconds is no news."""


class MetricsServer(ThreadingHTTPServer):
    daemon_threads = True

    def verify_request(self, request: Any, client: Any) -> bool:
        """Return whether to answer a connection; others are closed before a thread is started for them."""
        return incoming.is_within(client[0], settings.METRICS_ALLOW)


class MetricsServer6(MetricsServer):
    address_family = socket.AF_INET6


def start_metrics_server(host: str, port: int) -> MetricsServer:
    """Answer scrapes from a thread that ends with the process."""
    server = (MetricsServer6 if ":" in host else MetricsServer)((host, port), MetricsHandler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
