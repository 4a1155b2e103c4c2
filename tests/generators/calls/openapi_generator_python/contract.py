import json
import sys
from collections.abc import Callable

import client
from client.exceptions import ApiException

url, token, _ = sys.argv[1:]
connection = client.ApiClient(client.Configuration(host=url, access_token=token))
signers = client.SignersApi(connection)
notifications = client.NotificationsApi(connection)
rpc = client.JSONRPCApi(connection)
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiException as error:
        return f"{error.status} {json.loads(error.body or '{}')['message']}"
    return "no error"


before = signers.list_signers()
print(f"{before.pagination.total_items} signer: {before.data[0].id}")

local = client.LocalSignerRequest(
    id="plain-1", type=client.SignerTypeRequest.PLAIN, config=client.LocalConfigRequest(key=KEY)
)
created = signers.create_signer(client.CreateSignerRequest(local))
print(f"{created.data.id} is {created.data.type}")

print(refusal(lambda: signers.create_signer(client.CreateSignerRequest(local))))

config = client.SecretStoreConfigRequest(
    address="https://secrets.example.com", key_name="key", role_id="role", secret_id="secret"
)
store = signers.create_signer(
    client.CreateSignerRequest(
        client.SecretStoreSignerRequest(id="store-1", type=client.SignerTypeRequest.PROVIDER_C, config=config)
    )
)
print(f"{store.data.id} is {store.data.type} at {store.data.config.address}")

page = signers.list_signers(page=2, per_page=1)
print(f"{page.pagination.total_items} signers, on page 2: {page.data[0].id}")

relayer = client.RelayersApi(connection).list_relayers().data[0]
print(f"{relayer.id} has the cap {relayer.policies and relayer.policies.gas_price_cap}")

changed = notifications.update_notification("notification-1", client.UpdateNotificationRequest(signing_key="a-key"))
print(f"{changed.data.id} signs: {str(changed.data.has_signing_key).lower()}")

print(refusal(lambda: notifications.update_notification("other", client.UpdateNotificationRequest())))

params = client.FeeEstimateParamsRequest(fee_token="ETH", network="sepolia", transaction=TRANSACTION)
estimate = rpc.call_method(
    relayer.id,
    client.RpcRequest(
        jsonrpc=client.JsonrpcEnum.ENUM_2_DOT_0,
        id=client.RpcRequestId(1),
        method="feeEstimate",
        params=client.RpcRequestParams(params),
    ),
)
print(estimate.result and f"{estimate.result.method} {estimate.result.estimated_fee}")

refused = rpc.call_method(
    relayer.id,
    client.RpcRequest(jsonrpc=client.JsonrpcEnum.ENUM_2_DOT_0, id=client.RpcRequestId("a"), method="other"),
)
print(refused.error and f"{refused.error.code} {refused.error.message}")
