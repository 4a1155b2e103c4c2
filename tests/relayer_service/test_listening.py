"""Where the web server listens: HOST and PORT, from the environment or from `.env`."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from relayer_service.server import serving
from tests.servers import PROJECT, free_port
from tests.settings import SECRETS


def test_the_server_listens_where_a_file_says(tmp_path: Path) -> None:
    # The settings read the `.env` beside their own package, so the package stands in another folder.
    ignored = shutil.ignore_patterns("__pycache__", "static", "templates")
    shutil.copytree(PROJECT / "relayer_service", tmp_path / "relayer_service", ignore=ignored)
    port = free_port()
    (tmp_path / ".env").write_text(f"HOST=::1\nPORT={port}\n")
    program = (
        "from relayer_service.server.serving import listen, settings;"
        "print(*listen(settings.HOST, settings.PORT).getsockname()[:2])"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **SECRETS}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True).stdout == f"::1 {port}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels lose the queue")
def test_a_listener_that_stops_refuses_new_connections_and_keeps_queued_ones() -> None:
    listener = serving.listen("127.0.0.1", free_port())
    address = listener.getsockname()
    with listener.dup() as of_a_process, socket.create_connection(address) as queued:
        serving.stop_listening(listener)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        queued.sendall(b"?")
        with of_a_process.accept()[0] as accepted:
            assert accepted.recv(1) == b"?"
