// Makes every call of the published TypeScript client, one after the other, and prints the answers as one JSON object:
//
//     node calls.js BASE_PATH ACCESS_TOKEN ENCODED_TRANSACTION
//
// An answer is the HTTP status and the body, with numbers as the client reads them. There must be the relayer
// `relayer-1` with a node, and with a transaction that has the nonce 7.
const sdk = require("@openzeppelin/relayer-sdk");

const [, , basePath, accessToken, encoded] = process.argv;
const configuration = new sdk.Configuration({ basePath, accessToken });
const signers = new sdk.SignersApi(configuration);
const notifications = new sdk.NotificationsApi(configuration);
const relayers = new sdk.RelayersApi(configuration);
const networks = new sdk.NetworksApi(configuration);
const health = new sdk.HealthApi(configuration);

const KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const SPEED = sdk.Speed.SAFE_LOW;
const HASH = "11".repeat(32);
const answers = {};

async function call(name, request) {
  try {
    const { status, data } = await request();
    answers[name] = { status, body: data };
  } catch (error) {
    if (!error.response) throw error;
    answers[name] = { status: error.response.status, body: error.response.data };
  }
  return answers[name].body.data;
}

async function main() {
  await call("health", () => health.health());
  await call("readiness", () => health.readiness());

  await call("createSigner", () => signers.createSigner({ id: "signer/1", type: "plain", config: { key: KEY } }));
  await call("createSigner aws_kms", () =>
    signers.createSigner({ type: "aws_kms", config: { region: "eu-west-1", key_id: "key-1" } }),
  );
  await call("listSigners", () => signers.listSigners(1, 5));
  await call("getSigner", () => signers.getSigner("signer/1"));
  await call("updateSigner", () => signers.updateSigner("signer/1", {}));

  const url = "https://hooks.example.com/relayers";
  await call("createNotification", () =>
    notifications.createNotification({ id: "hook/1", type: "webhook", url, signing_key: "k".repeat(32) }),
  );
  await call("listNotifications", () => notifications.listNotifications(1, 5));
  await call("getNotification", () => notifications.getNotification("hook/1"));
  await call("updateNotification", () => notifications.updateNotification("hook/1", { signing_key: "" }));

  await call("listNetworks", () => networks.listNetworks(1, 2));
  await call("getNetwork", () => networks.getNetwork("evm:hardhat"));
  await call("updateNetwork", () => networks.updateNetwork("evm:hardhat", { rpc_urls: ["https://node.example.com"] }));

  await call("createRelayer", () =>
    relayers.createRelayer({
      id: "new/1",
      name: "New",
      network: "hardhat",
      network_type: "evm",
      signer_id: "signer/1",
      notification_id: "hook/1",
      paused: false,
      policies: { min_balance: 0 },
    }),
  );
  await call("listRelayers", () => relayers.listRelayers(1, 5));
  await call("getRelayer", () => relayers.getRelayer("new/1"));
  await call("updateRelayer", () =>
    relayers.updateRelayer("new/1", { name: "Renamed", policies: { gas_price_cap: 1.5e21 } }),
  );
  await call("getRelayerStatus", () => relayers.getRelayerStatus("relayer-1"));
  await call("getRelayerBalance", () => relayers.getRelayerBalance("relayer-1"));
  const params = { fee_token: "ETH", network: "hardhat", transaction: encoded };
  await call("rpc", () => relayers.rpc("relayer-1", { jsonrpc: "2.0", id: 1, method: "feeEstimate", params }));

  const send = (changes) => ({ to: RECEIVER, value: 1, speed: SPEED, ...changes });
  const { id } = await call("sendTransaction", () => relayers.sendTransaction("relayer-1", send({ data: "0x" })));
  await call("sendTransaction 1e21", () => relayers.sendTransaction("relayer-1", send({ value: 1e21 })));
  await call("listTransactions", () => relayers.listTransactions("relayer-1", 1, 5));
  await call("getTransactionById", () => relayers.getTransactionById("relayer-1", id));
  await call("getTransactionByNonce", () => relayers.getTransactionByNonce("relayer-1", 7));
  await call("replaceTransaction", () => relayers.replaceTransaction("relayer-1", id, send({ value: 2 })));
  await call("cancelTransaction", () => relayers.cancelTransaction("relayer-1", id));
  await call("deletePendingTransactions", () => relayers.deletePendingTransactions("relayer-1"));
  await call("quoteSponsoredTransaction", () => relayers.quoteSponsoredTransaction("relayer-1", { fee_token: "t" }));
  await call("buildSponsoredTransaction", () => relayers.buildSponsoredTransaction("relayer-1", { fee_token: "t" }));

  await call("sign", () => relayers.sign("relayer-1", { message: "hello" }));
  await call("signTypedData", () =>
    relayers.signTypedData("relayer-1", { domain_separator: HASH, hash_struct_message: HASH }),
  );
  await call("signTransaction", () => relayers.signTransaction("relayer-1", { unsigned_xdr: "AAAA" }));

  await call("deleteRelayer", () => relayers.deleteRelayer("new/1"));
  await call("deleteNotification", () => notifications.deleteNotification("hook/1"));
  await call("deleteSigner", () => signers.deleteSigner("signer/1"));
  console.log(JSON.stringify(answers));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
