import sys

from client import AuthenticatedClient
from client.api.json_rpc import call_method
from client.api.notifications import create_notification, test_notification
from client.api.relayers import create_relayer, delete_relayer, get_relayer_status, list_relayers, update_relayer
from client.api.service import get_health
from client.api.signers import create_signer
from client.models import (
    CreateNotificationRequest,
    CreateNotificationResponse201,
    CreateRelayerRequest,
    CreateRelayerResponse201,
    CreateSignerResponse201,
    DeleteRelayerResponse200,
    EvmPoliciesPatchRequest,
    FeeQuoteParamsRequest,
    FeeQuoteResult,
    GetHealthResponse200,
    GetRelayerStatusResponse200,
    JsonrpcEnum,
    ListRelayersResponse200,
    ListRelayersState,
    LocalConfigRequest,
    LocalSignerRequest,
    NetworkTypeEnum,
    RpcRequest,
    RpcResponse,
    RpcUrlRequest,
    SignerTypeRequest,
    TestNotificationResponse201,
    UpdateRelayerRequest,
    UpdateRelayerResponse200,
)
from client.types import Unset

url, token, node = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)
KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"

health = get_health.sync(client=client)
assert isinstance(health, GetHealthResponse200)
print(health.status)

local = LocalSignerRequest(id="plain-1", type_=SignerTypeRequest.PLAIN, config=LocalConfigRequest(key=KEY))
signer = create_signer.sync(client=client, body=local)
assert isinstance(signer, CreateSignerResponse201)
print(f"{signer.data.id} is {signer.data.type_}")

hook = create_notification.sync(
    client=client, body=CreateNotificationRequest(id="hooks-1", url="https://example.com/hooks")
)
assert isinstance(hook, CreateNotificationResponse201)
print(f"{hook.data.id} signs: {str(hook.data.has_signing_key).lower()}")

created = create_relayer.sync(
    client=client,
    body=CreateRelayerRequest(
        id="relayer-2",
        name="Second",
        network="sepolia",
        network_type=NetworkTypeEnum.EVM,
        signer_id="plain-1",
        notification_id="hooks-1",
        paused=True,
        custom_rpc_urls=[RpcUrlRequest(url=node, weight=100)],
    ),
)
assert isinstance(created, CreateRelayerResponse201)
print(f"{created.data.id} is paused: {str(created.data.paused).lower()}")

policies = EvmPoliciesPatchRequest(gas_price_cap=5_000_000_000)
changed = update_relayer.sync("relayer-2", client=client, body=UpdateRelayerRequest(policies=policies))
assert isinstance(changed, UpdateRelayerResponse200)
assert not isinstance(changed.data.policies, Unset)
print(f"{changed.data.id} has the cap {changed.data.policies.gas_price_cap}")

paused = list_relayers.sync(client=client, state=ListRelayersState.PAUSED)
assert isinstance(paused, ListRelayersResponse200)
print(f"{paused.pagination.total_items} relayer that is paused: {paused.data[0].id}")

test = test_notification.sync("hooks-1", client=client)
assert isinstance(test, TestNotificationResponse201)
since = "this century" if test.data.created_at.year > 2000 else "ever"
print(f"{test.data.event} is {test.data.state} since {since}")

params = FeeQuoteParamsRequest(network="sepolia", transaction=TRANSACTION, fee_tokens=["ETH"])
quote = call_method.sync(
    "relayer-1",
    client=client,
    body=RpcRequest(jsonrpc=JsonrpcEnum.VALUE_0, id=1, method="feeQuote", params=params),
)
assert isinstance(quote, RpcResponse)
assert isinstance(quote.result, FeeQuoteResult)
native, tokens = quote.result.native, quote.result.tokens
print(f"{quote.result.method} {native.maximum} wei of {native.symbol}, {len(tokens)} token")

status = get_relayer_status.sync("relayer-2", client=client)
assert isinstance(status, GetRelayerStatusResponse200)
print(f"relayer-2 on {status.data.network_type} is paused: {str(status.data.paused).lower()}")

deleted = delete_relayer.sync("relayer-2", client=client)
assert isinstance(deleted, DeleteRelayerResponse200)
print(deleted.data)
