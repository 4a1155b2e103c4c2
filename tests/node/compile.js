// Compile the contracts with the compiler of node_modules, which needs no network, and print what the tests need as JSON.
const fs = require("fs");
const path = require("path");
const solc = require("solc");

const folder = path.join(__dirname, "contracts");
const sources = {};
for (const name of fs.readdirSync(folder).filter((name) => name.endsWith(".sol")).sort()) {
  sources[name] = { content: fs.readFileSync(path.join(folder, name), "utf8") };
}
const settings = {
  evmVersion: "cancun",
  optimizer: { enabled: true },
  outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
};
const { errors = [], contracts } = JSON.parse(
  solc.compile(JSON.stringify({ language: "Solidity", sources, settings })),
);
if (errors.length) {
  console.error(errors.map((error) => error.formattedMessage).join("\n"));
  process.exit(1);
}
const compiled = {};
for (const one of Object.values(contracts)) {
  for (const [name, { abi, evm }] of Object.entries(one)) {
    compiled[name] = { abi, creation: evm.bytecode.object, runtime: evm.deployedBytecode.object };
  }
}
process.stdout.write(JSON.stringify(compiled));
