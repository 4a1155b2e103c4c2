import { callMethod, createSigner, listRelayers, listSigners, updateNotification } from "./client";
import { client } from "./client/client.gen";

const [url, token] = process.argv.slice(2);
client.setConfig({ baseUrl: url, auth: token });
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0";

async function main(): Promise<void> {
  const before = await listSigners();
  console.log(`${before.data?.pagination.total_items} signer: ${before.data?.data[0].id}`);

  const local = { id: "plain-1", type: "plain", config: { key: KEY } } as const;
  const created = await createSigner({ body: local });
  console.log(`${created.data?.data.id} is ${created.data?.data.type}`);

  const again = await createSigner({ body: local });
  console.log(`${again.response.status} ${again.error?.message}`);

  const config = { address: "https://secrets.example.com", key_name: "key", role_id: "role", secret_id: "secret" };
  const store = await createSigner({ body: { id: "store-1", type: "provider_c", config } });
  console.log(`${store.data?.data.id} is ${store.data?.data.type} at ${store.data?.data.config.address}`);

  const page = await listSigners({ query: { page: 2, per_page: 1 } });
  console.log(`${page.data?.pagination.total_items} signers, on page 2: ${page.data?.data[0].id}`);

  const relayers = await listRelayers();
  const [relayer] = relayers.data?.data ?? [];
  console.log(`${relayer.id} has the cap ${relayer.policies?.gas_price_cap}`);

  const path = { notification_id: "notification-1" };
  const changed = await updateNotification({ path, body: { signing_key: "a-key" } });
  console.log(`${changed.data?.data.id} signs: ${changed.data?.data.has_signing_key}`);

  const unknown = await updateNotification({ path: { notification_id: "other" }, body: {} });
  console.log(`${unknown.response.status} ${unknown.error?.message}`);

  const estimate = await callMethod({
    path: { relayer_id: relayer.id },
    body: {
      jsonrpc: "2.0",
      id: 1,
      method: "feeEstimate",
      params: { fee_token: "ETH", network: "sepolia", transaction: TRANSACTION },
    },
  });
  console.log(`${estimate.data?.result?.method} ${estimate.data?.result?.estimated_fee}`);

  const refused = await callMethod({
    path: { relayer_id: relayer.id },
    body: { jsonrpc: "2.0", id: "a", method: "other" },
  });
  console.log(`${refused.data?.error?.code} ${refused.data?.error?.message}`);
}

main();
