"""A signer of every type that can sign for Ethereum, with the server or stand-in that holds its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from signers.models import Signer
from tests.relayers.factories import KEY
from tests.signers.backends import test_coinbase_cdp, test_turnkey, test_vault
from tests.signers.backends.cdp_server import CdpServer
from tests.signers.backends.turnkey_server import TurnkeyServer
from tests.signers.backends.vault_server import VaultServer

Config = dict[str, Any]


@contextmanager
def local(patch: pytest.MonkeyPatch) -> Iterator[Config]:
    yield {"key": KEY}


@contextmanager
def aws_kms(patch: pytest.MonkeyPatch) -> Iterator[Config]:
    """A new key in moto's KMS."""
    # Imported here: without the library, only the tests of this type are skipped.
    from tests.signers.backends import test_aws_kms

    missing = Path("/nonexistent")
    for name, value in {
        "AWS_CONFIG_FILE": str(missing),
        "AWS_SHARED_CREDENTIALS_FILE": str(missing),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "NO_PROXY": "127.0.0.1",
    }.items():
        patch.setenv(name, value)
    with test_aws_kms.run_moto() as url:
        patch.setenv("AWS_ENDPOINT_URL_KMS", url)
        client = test_aws_kms.boto3.session.Session().client("kms", region_name=test_aws_kms.REGION)
        yield {"key_id": test_aws_kms.new_key(client), "region": test_aws_kms.REGION}


@contextmanager
def google_kms(patch: pytest.MonkeyPatch) -> Iterator[Config]:
    from tests.signers.backends import test_google_kms
    from tests.signers.backends.google_server import GoogleServer

    patch.setenv("NO_PROXY", "127.0.0.1")
    with GoogleServer(test_google_kms.KEY, test_google_kms.SERVICE_ACCOUNT_KEY.public_key()) as server:
        patch.setenv("GOOGLE_KMS_ENDPOINT", server.url)
        yield test_google_kms.config()


@contextmanager
def vault_kv(patch: pytest.MonkeyPatch) -> Iterator[Config]:
    with VaultServer() as server:
        server.secrets["/v1/secret/data/relayers/main"] = {"value": test_vault.KEY}
        yield test_vault.config(server)


@contextmanager
def turnkey(patch: pytest.MonkeyPatch) -> Iterator[Config]:
    with TurnkeyServer() as server:
        patch.setenv("TURNKEY_API_URL", server.url)
        yield dict(test_turnkey.turnkey().config)


@contextmanager
def coinbase_cdp(patch: pytest.MonkeyPatch) -> Iterator[Config]:
    with CdpServer() as server:
        patch.setenv("CDP_API_URL", f"{server.url}/platform")
        yield dict(test_coinbase_cdp.cdp().config)


SERVERS: dict[str, Callable[[pytest.MonkeyPatch], AbstractContextManager[Config]]] = {
    "plain": local,
    "provider_a_kms": aws_kms,
    "provider_b_kms": google_kms,
    "provider_c": vault_kv,
    "provider_d": turnkey,
    "provider_e": coinbase_cdp,
}


@contextmanager
def running_signer(signer_type: str, patch: pytest.MonkeyPatch) -> Iterator[Signer]:
    """Yield a stored signer of a type while its server runs."""
    with SERVERS[signer_type](patch) as config:
        signer = Signer(identifier=f"signer-{signer_type}", type=signer_type)
        signer.set_config(config)
        signer.save()
        yield signer
