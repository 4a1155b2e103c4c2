import sys

from client import AuthenticatedClient
from client.api.json_rpc import call_method
from client.api.notifications import update_notification
from client.api.relayers import list_relayers
from client.api.signers import create_signer, list_signers
from client.models import (
    CreateSignerResponse201,
    Error,
    FeeEstimateParamsRequest,
    JsonrpcEnum,
    ListRelayersResponse200,
    ListSignersResponse200,
    LocalConfigRequest,
    LocalSignerRequest,
    RpcRequest,
    RpcResponse,
    SecretStoreConfigRequest,
    SecretStoreSignerRequest,
    SignerTypeRequest,
    UpdateNotificationRequest,
    UpdateNotificationResponse200,
)
from client.types import Unset

url, token, _ = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"

before = list_signers.sync(client=client)
assert isinstance(before, ListSignersResponse200)
print(f"{before.pagination.total_items} signer: {before.data[0].id}")

local = LocalSignerRequest(id="plain-1", type_=SignerTypeRequest.PLAIN, config=LocalConfigRequest(key=KEY))
created = create_signer.sync(client=client, body=local)
assert isinstance(created, CreateSignerResponse201)
print(f"{created.data.id} is {created.data.type_}")

again = create_signer.sync_detailed(client=client, body=local)
assert isinstance(again.parsed, Error)
print(f"{again.status_code.value} {again.parsed.message}")

config = SecretStoreConfigRequest(
    address="https://secrets.example.com", key_name="key", role_id="role", secret_id="secret"
)
store = create_signer.sync(
    client=client,
    body=SecretStoreSignerRequest(id="store-1", type_=SignerTypeRequest.PROVIDER_C, config=config),
)
assert isinstance(store, CreateSignerResponse201)
print(f"{store.data.id} is {store.data.type_} at {store.data.config.address}")

page = list_signers.sync(client=client, page=2, per_page=1)
assert isinstance(page, ListSignersResponse200)
print(f"{page.pagination.total_items} signers, on page 2: {page.data[0].id}")

relayers = list_relayers.sync(client=client)
assert isinstance(relayers, ListRelayersResponse200)
relayer = relayers.data[0]
assert not isinstance(relayer.policies, Unset)
print(f"{relayer.id} has the cap {relayer.policies.gas_price_cap}")

changed = update_notification.sync(
    "notification-1", client=client, body=UpdateNotificationRequest(signing_key="a-key")
)
assert isinstance(changed, UpdateNotificationResponse200)
print(f"{changed.data.id} signs: {str(changed.data.has_signing_key).lower()}")

unknown = update_notification.sync_detailed("other", client=client, body=UpdateNotificationRequest())
assert isinstance(unknown.parsed, Error)
print(f"{unknown.status_code.value} {unknown.parsed.message}")

params = FeeEstimateParamsRequest(fee_token="ETH", network="sepolia", transaction=TRANSACTION)
estimate = call_method.sync(
    relayer.id,
    client=client,
    body=RpcRequest(jsonrpc=JsonrpcEnum.VALUE_0, id=1, method="feeEstimate", params=params),
)
assert isinstance(estimate, RpcResponse)
assert not isinstance(estimate.result, Unset)
print(f"{estimate.result.method} {estimate.result.estimated_fee}")

refused = call_method.sync(
    relayer.id, client=client, body=RpcRequest(jsonrpc=JsonrpcEnum.VALUE_0, id="a", method="other")
)
assert isinstance(refused, RpcResponse)
assert not isinstance(refused.error, Unset)
print(f"{refused.error.code} {refused.error.message}")
