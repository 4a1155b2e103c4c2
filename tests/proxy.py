"""nginx with the configuration of `deploy/nginx`, on ports and with a certificate of its own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from tests.certificates import make_certificate
from tests.servers import PROJECT, Unavailable, free_port, wait_for_port

SHIPPED = PROJECT / "deploy/nginx"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@dataclass(frozen=True)
class Proxy:
    """Where nginx listens, and the certificate that it shows."""

    folder: Path
    http_port: int
    https_port: int
    certificate: Path

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    @contextmanager
    def connected(self) -> Iterator[ssl.SSLSocket]:
        """Yield a connection over TLS, for what no client of HTTP would send."""
        with (
            socket.create_connection(("127.0.0.1", self.https_port), timeout=60) as plain,
            self.trusting().wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            yield connection


def program() -> str:
    """Return the path of nginx, which for ordinary users is in no folder of PATH."""
    found = shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"]))
    if found is None:
        raise Unavailable("nginx is not installed")
    return found


@contextmanager
def nginx(folder: Path, web_ports: Sequence[int]) -> Iterator[Proxy]:
    """Run nginx in front of web processes on this machine."""
    proxy = new(folder)
    command = prepare(proxy, web_ports)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for_port(proxy.https_port, process=process)
            yield proxy
        finally:
            process.terminate()
            process.wait(60)


def new(folder: Path) -> Proxy:
    return Proxy(folder, free_port(), free_port(), folder / "certificate.pem")


def prepare(proxy: Proxy, web_ports: Sequence[int]) -> list[str]:
    """Write the shipped configuration with other addresses, ports and paths, and return the command."""
    folder = proxy.folder
    shutil.copytree(SHIPPED, folder, dirs_exist_ok=True)
    make_certificate(proxy.certificate, x509.DNSName("localhost"))
    upstream, listen = folder / "upstream.conf", folder / "listen.conf"
    places = "".join(f"{name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    upstream.write_text(places + with_servers(upstream.read_text(), web_ports))
    listen.write_text(
        listen.read_text()
        .replace("listen 80;", f"listen 127.0.0.1:{proxy.http_port};")
        .replace("listen 443 ssl;", f"listen 127.0.0.1:{proxy.https_port} ssl;")
        .replace("/etc/nginx/tls/fullchain.pem", str(proxy.certificate))
        .replace("/etc/nginx/tls/privkey.pem", str(proxy.certificate))
        .replace("/etc/nginx/tls/webroot", str(folder / "webroot"))
    )
    # Started by root, it would read and write these folders as nobody.
    user = "user root root; " if os.geteuid() == 0 else ""
    options = f"daemon off; pid {folder}/pid; {user}"
    return [program(), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", options]


def with_servers(upstream: str, ports: Sequence[int]) -> str:
    """Return the shipped upstream with the addresses of its web processes replaced, one for one."""
    shipped = dict.fromkeys(re.findall(r"(?m)^\s*server ([\d.]+:\d+)", upstream))
    for address, port in zip(shipped, ports, strict=True):
        upstream = upstream.replace(address, f"127.0.0.1:{port}")
    return upstream
