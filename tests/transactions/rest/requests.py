"""What a client sends."""

from typing import Any

PATH = "/api/v1/relayers/relayer-1/transactions"
RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
# A transfer of 1 wei.
TRANSFER: dict[str, Any] = {"to": RECEIVER, "value": 1}
