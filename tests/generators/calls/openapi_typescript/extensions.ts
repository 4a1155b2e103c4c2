import createClient from "openapi-fetch";

import type { paths } from "./client";

const [url, token, node] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });
const KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
const TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0";

async function main(): Promise<void> {
  const health = await client.GET("/api/v1/health");
  console.log(health.data?.status);

  const signer = await client.POST("/api/v1/signers", { body: { id: "plain-1", type: "plain", config: { key: KEY } } });
  console.log(`${signer.data?.data.id} is ${signer.data?.data.type}`);

  const hook = await client.POST("/api/v1/notifications", { body: { id: "hooks-1", url: "https://example.com/hooks" } });
  console.log(`${hook.data?.data.id} signs: ${hook.data?.data.has_signing_key}`);

  const created = await client.POST("/api/v1/relayers", {
    body: {
      id: "relayer-2",
      name: "Second",
      network: "sepolia",
      network_type: "evm",
      signer_id: "plain-1",
      notification_id: "hooks-1",
      paused: true,
      custom_rpc_urls: [{ url: node, weight: 100 }],
    },
  });
  console.log(`${created.data?.data.id} is paused: ${created.data?.data.paused}`);

  const path = { relayer_id: "relayer-2" };
  const changed = await client.PATCH("/api/v1/relayers/{relayer_id}", {
    params: { path },
    body: { policies: { gas_price_cap: 5_000_000_000 } },
  });
  console.log(`${changed.data?.data.id} has the cap ${changed.data?.data.policies?.gas_price_cap}`);

  const paused = await client.GET("/api/v1/relayers", { params: { query: { state: "paused" } } });
  console.log(`${paused.data?.pagination.total_items} relayer that is paused: ${paused.data?.data[0].id}`);

  const test = await client.POST("/api/v1/notifications/{notification_id}/test", {
    params: { path: { notification_id: "hooks-1" } },
  });
  const isNew = new Date(test.data?.data.created_at ?? 0).getFullYear() > 2000;
  console.log(`${test.data?.data.event} is ${test.data?.data.state} since ${isNew ? "this century" : "ever"}`);

  const quote = await client.POST("/api/v1/relayers/{relayer_id}/rpc", {
    params: { path: { relayer_id: "relayer-1" } },
    body: {
      jsonrpc: "2.0",
      id: 1,
      method: "feeQuote",
      params: { network: "sepolia", transaction: TRANSACTION, fee_tokens: ["ETH"] },
    },
  });
  const result = quote.data?.result;
  if (result?.method === "feeQuote") {
    const { maximum, symbol } = result.native;
    console.log(`${result.method} ${maximum} wei of ${symbol}, ${result.tokens.length} token`);
  }

  const status = await client.GET("/api/v1/relayers/{relayer_id}/status", { params: { path } });
  console.log(`relayer-2 on ${status.data?.data.network_type} is paused: ${status.data?.data.paused}`);

  const deleted = await client.DELETE("/api/v1/relayers/{relayer_id}", { params: { path } });
  console.log(deleted.data?.data);
}

main();
