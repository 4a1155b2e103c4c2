"""Add a signer, a relayer `shop` and a token that it has, to the service of `make run` and the node of `make node`."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from eth_abi import encode

from relayer_client import Client, errors

NODE = Path(__file__).resolve().parents[2] / "tests/node"
# The third account of Hardhat; its key is public.
KEY = "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"
MINT = "0x40c10f19"

compiled = subprocess.run(["node", "compile.js"], cwd=NODE, capture_output=True, check=True).stdout
code = bytes.fromhex(json.loads(compiled)["Token"]["creation"])
with Client(os.environ.get("RELAYER_URL", "http://127.0.0.1:8000"), os.environ["RELAYER_TOKEN"]) as client:
    with suppress(errors.IdTaken):
        client.create_signer(id="shop", type="plain", config={"key": KEY})
    nodes = [{"url": url} for url in sys.argv[1:]]
    with suppress(errors.IdTaken):
        client.create_relayer(id="shop", name="Shop", network="hardhat", signer_id="shop", custom_rpc_urls=nodes)
    relayer = client.relayer("shop")
    arguments = encode(["string", "string", "uint8"], ["Points", "PTS", 0])
    token = relayer.wait(relayer.send(data=code + arguments))
    minted = bytes.fromhex(MINT[2:]) + encode(["address", "uint256"], [token.sender, 10**6])
    relayer.wait(relayer.send(to=token.contract_address, data=minted))
print(f"export TOKEN_CONTRACT={token.contract_address}")
