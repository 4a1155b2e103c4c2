"""Where the web server listens: HOST and PORT, from the environment or from `.env`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.servers import PROJECT, free_port
from tests.settings import SECRETS


def test_the_server_listens_where_a_file_says(tmp_path: Path) -> None:
    # The settings read the `.env` beside their own package, so the package stands in another folder.
    ignored = shutil.ignore_patterns("__pycache__", "static", "templates")
    shutil.copytree(PROJECT / "relayer_service", tmp_path / "relayer_service", ignore=ignored)
    port = free_port()
    (tmp_path / ".env").write_text(f"HOST=::1\nPORT={port}\n")
    program = (
        "from relayer_service.server import listen, settings;"
        "print(*listen(settings.HOST, settings.PORT).getsockname()[:2])"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **SECRETS}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True).stdout == f"::1 {port}\n"
