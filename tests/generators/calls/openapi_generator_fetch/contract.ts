import { Configuration, JSONRPCApi, NotificationsApi, RelayersApi, ResponseError, SignersApi } from "./client";

const [basePath, accessToken] = process.argv.slice(2);
const configuration = new Configuration({ basePath, accessToken });
const signers = new SignersApi(configuration);
const rpc = new JSONRPCApi(configuration);
const notifications = new NotificationsApi(configuration);
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0";

async function message(call: Promise<unknown>): Promise<string> {
  const error: ResponseError = await call.then(() => Promise.reject(new Error("no error")), (reason) => reason);
  return `${error.response.status} ${(await error.response.json()).message}`;
}

async function main(): Promise<void> {
  const before = await signers.listSigners();
  console.log(`${before.pagination.totalItems} signer: ${before.data[0].id}`);

  const local = { id: "plain-1", type: "plain", config: { key: KEY } } as const;
  const created = await signers.createSigner({ createSignerRequest: local });
  console.log(`${created.data.id} is ${created.data.type}`);

  console.log(await message(signers.createSigner({ createSignerRequest: local })));

  const config = { address: "https://secrets.example.com", keyName: "key", roleId: "role", secretId: "secret" };
  const store = await signers.createSigner({ createSignerRequest: { id: "store-1", type: "provider_c", config } });
  console.log(`${store.data.id} is ${store.data.type} at ${store.data.config.address}`);

  const page = await signers.listSigners({ page: 2, perPage: 1 });
  console.log(`${page.pagination.totalItems} signers, on page 2: ${page.data[0].id}`);

  const [relayer] = (await new RelayersApi(configuration).listRelayers()).data;
  console.log(`${relayer.id} has the cap ${relayer.policies?.gasPriceCap}`);

  const changed = await notifications.updateNotification({
    notificationId: "notification-1",
    updateNotificationRequest: { signingKey: "a-key" },
  });
  console.log(`${changed.data.id} signs: ${changed.data.hasSigningKey}`);

  console.log(
    await message(notifications.updateNotification({ notificationId: "other", updateNotificationRequest: {} })),
  );

  const estimate = await rpc.callMethod({
    relayerId: relayer.id,
    rpcRequest: {
      jsonrpc: "2.0",
      id: 1,
      method: "feeEstimate",
      params: { feeToken: "ETH", network: "sepolia", transaction: TRANSACTION },
    },
  });
  console.log(`${estimate.result?.method} ${estimate.result?.estimatedFee}`);

  const refused = await rpc.callMethod({
    relayerId: relayer.id,
    rpcRequest: { jsonrpc: "2.0", id: "a", method: "other" },
  });
  console.log(`${refused.error?.code} ${refused.error?.message}`);
}

main();
