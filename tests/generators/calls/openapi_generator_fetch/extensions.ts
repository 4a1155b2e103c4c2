import { Configuration, JSONRPCApi, NotificationsApi, RelayersApi, ServiceApi, SignersApi } from "./client";

const [basePath, accessToken, node] = process.argv.slice(2);
const configuration = new Configuration({ basePath, accessToken });
const relayers = new RelayersApi(configuration);
const notifications = new NotificationsApi(configuration);
const KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
const TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0";

async function main(): Promise<void> {
  const health = await new ServiceApi(configuration).getHealth();
  console.log(health.status);

  const signer = await new SignersApi(configuration).createSigner({
    createSignerRequest: { id: "plain-1", type: "plain", config: { key: KEY } },
  });
  console.log(`${signer.data.id} is ${signer.data.type}`);

  const hook = await notifications.createNotification({
    createNotificationRequest: { id: "hooks-1", url: "https://example.com/hooks" },
  });
  console.log(`${hook.data.id} signs: ${hook.data.hasSigningKey}`);

  const created = await relayers.createRelayer({
    createRelayerRequest: {
      id: "relayer-2",
      name: "Second",
      network: "sepolia",
      networkType: "evm",
      signerId: "plain-1",
      notificationId: "hooks-1",
      paused: true,
      customRpcUrls: [{ url: node, weight: 100 }],
    },
  });
  console.log(`${created.data.id} is paused: ${created.data.paused}`);

  const relayerId = "relayer-2";
  const changed = await relayers.updateRelayer({
    relayerId,
    updateRelayerRequest: { policies: { gasPriceCap: 5_000_000_000 } },
  });
  console.log(`${changed.data.id} has the cap ${changed.data.policies?.gasPriceCap}`);

  const paused = await relayers.listRelayers({ state: "paused" });
  console.log(`${paused.pagination.totalItems} relayer that is paused: ${paused.data[0].id}`);

  const test = await notifications.testNotification({ notificationId: "hooks-1" });
  const isNew = test.data.createdAt.getFullYear() > 2000;
  console.log(`${test.data.event} is ${test.data.state} since ${isNew ? "this century" : "ever"}`);

  const quote = await new JSONRPCApi(configuration).callMethod({
    relayerId: "relayer-1",
    rpcRequest: {
      jsonrpc: "2.0",
      id: 1,
      method: "feeQuote",
      params: { network: "sepolia", transaction: TRANSACTION, feeTokens: ["ETH"] },
    },
  });
  if (quote.result?.method === "feeQuote") {
    const { maximum, symbol } = quote.result._native;
    console.log(`${quote.result.method} ${maximum} wei of ${symbol}, ${quote.result.tokens.length} token`);
  }

  const status = await relayers.getRelayerStatus({ relayerId });
  console.log(`relayer-2 on ${status.data.networkType} is paused: ${status.data.paused}`);

  const deleted = await relayers.deleteRelayer({ relayerId });
  console.log(deleted.data);
}

main();
