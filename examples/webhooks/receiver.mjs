// A webhook receiver with Node.js alone; docs/webhooks.md has the rules that it follows.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const TOLERANCE_SECONDS = 5 * 60;

function keyBytes(signingKey) {
  return signingKey.startsWith("whsec_")
    ? Buffer.from(signingKey.slice("whsec_".length), "base64")
    : Buffer.from(signingKey, "utf8");
}

function isGenuine(key, body, headers) {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures = "" } = headers;
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (!(age <= TOLERANCE_SECONDS)) return false;
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${signature}`);
  return signatures
    .split(" ")
    .map((given) => Buffer.from(given))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
}

const key = keyBytes(process.env.SIGNING_KEY ?? "");
if (key.length === 0) throw new Error("SIGNING_KEY is empty");

createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts);
    const genuine = isGenuine(key, body, request.headers);
    // Store it under its webhook-id, unless it is stored already; process it after answering.
    if (genuine) console.log(request.headers["webhook-id"], JSON.parse(body).type);
    response.writeHead(genuine ? 204 : 401).end();
  });
}).listen(Number(process.env.PORT ?? 9000), "127.0.0.1");
