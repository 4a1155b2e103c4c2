import sys

import client

url, token, node = sys.argv[1:]
connection = client.ApiClient(client.Configuration(host=url, access_token=token))
relayers = client.RelayersApi(connection)
notifications = client.NotificationsApi(connection)
KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"

print(client.ServiceApi(connection).get_health().status)

local = client.LocalSignerRequest(
    id="plain-1", type=client.SignerTypeRequest.PLAIN, config=client.LocalConfigRequest(key=KEY)
)
signer = client.SignersApi(connection).create_signer(client.CreateSignerRequest(local))
print(f"{signer.data.id} is {signer.data.type}")

hook = notifications.create_notification(
    client.CreateNotificationRequest(id="hooks-1", url="https://example.com/hooks")
)
print(f"{hook.data.id} signs: {str(hook.data.has_signing_key).lower()}")

created = relayers.create_relayer(
    client.CreateRelayerRequest(
        id="relayer-2",
        name="Second",
        network="sepolia",
        network_type=client.NetworkTypeEnum.EVM,
        signer_id="plain-1",
        notification_id="hooks-1",
        paused=True,
        custom_rpc_urls=[client.RpcUrlRequest(url=node, weight=100)],
    )
)
print(f"{created.data.id} is paused: {str(created.data.paused).lower()}")

policies = client.EvmPoliciesPatchRequest(gas_price_cap=5_000_000_000)
changed = relayers.update_relayer("relayer-2", client.UpdateRelayerRequest(policies=policies))
print(f"{changed.data.id} has the cap {changed.data.policies and changed.data.policies.gas_price_cap}")

paused = relayers.list_relayers(state="paused")
print(f"{paused.pagination.total_items} relayer that is paused: {paused.data[0].id}")

test = notifications.test_notification("hooks-1")
since = "this century" if test.data.created_at.year > 2000 else "ever"
print(f"{test.data.event} is {test.data.state.value} since {since}")

params = client.FeeQuoteParamsRequest(network="sepolia", transaction=TRANSACTION, fee_tokens=["ETH"])
quote = client.JSONRPCApi(connection).call_method(
    "relayer-1",
    client.RpcRequest(
        jsonrpc=client.JsonrpcEnum.ENUM_2_DOT_0,
        id=client.RpcRequestId(1),
        method="feeQuote",
        params=client.RpcRequestParams(params),
    ),
)
result = quote.result and quote.result.actual_instance
if isinstance(result, client.FeeQuoteResult):
    native, tokens = result.native, result.tokens
    print(f"{result.method} {native.maximum} wei of {native.symbol}, {len(tokens)} token")

status = relayers.get_relayer_status("relayer-2")
print(f"relayer-2 on {status.data.network_type} is paused: {str(status.data.paused).lower()}")

print(relayers.delete_relayer("relayer-2").data)
