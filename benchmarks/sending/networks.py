"""A networks file for a local chain: shipped settings, but for the confirmations."""

import json
from pathlib import Path
from typing import Any

from benchmarks.sending.rows import NETWORK

SHIPPED = Path(__file__).parent.parent.parent / "chain/networks.json"


def networks_file(folder: Path, url: str, confirmations: int, **changes: Any) -> str:
    """Write the file and return its path."""
    shipped = json.loads(SHIPPED.read_text())
    network = shipped["networks"][NETWORK]
    network |= {"rpc_urls": [url], "confirmations": confirmations, **changes}
    file = folder / "networks.json"
    file.write_text(json.dumps({"networks": {NETWORK: network}}))
    return str(file)
