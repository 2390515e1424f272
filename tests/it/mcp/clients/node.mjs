// Drives an official client of the Model Context Protocol from npm: `node.mjs MODULES MODE COMMAND…`. MODE is `sdk` for
// @modelcontextprotocol/sdk, and `legacy` or `auto` for @modelcontextprotocol/client. The steps on standard input and
// the lines on standard output are those of python.py.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [modules, mode, command, ...args] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`));
// The server has begun with a call by then.
const CANCELLED_AFTER_MS = 300;
const faults = [];

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function connect() {
  const root = mode === "sdk" ? "sdk/dist/esm/client" : "client/dist";
  const end = mode === "sdk" ? "js" : "mjs";
  const { Client } = await load(`${root}/index.${end}`);
  const { StdioClientTransport } = await load(`${root}/stdio.${end}`);
  const client = new Client({ name: "the tests", version: "1" }, { versionNegotiation: { mode } });
  client.onerror = (error) => faults.push(String(error));
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  return client;
}

const steps = {
  async list(client) {
    const { tools } = await client.listTools();
    const version = client.getNegotiatedProtocolVersion?.();
    const schemas = tools.map((tool) => [tool.inputSchema, tool.outputSchema]);
    say({ tools: tools.map((tool) => tool.name), schemas, version, server: client.getServerVersion().name, faults });
  },

  async call(client, step) {
    let progress = 0;
    const onprogress = ({ progress: done, total, message }) => {
      progress += 1;
      say({ progress: message ?? null, done, total });
    };
    const result = await called(client, step.call, step.arguments, { onprogress });
    const text = result.content.map((block) => block.text).join("");
    say({ structured: result.structuredContent, is_error: result.isError === true, text, progress, faults });
  },

  async cancel(client, step) {
    const options = { signal: AbortSignal.timeout(CANCELLED_AFTER_MS) };
    const outcome = await called(client, step.cancel, step.arguments, options).then(
      () => "returned",
      () => "cancelled",
    );
    say({ cancelled: outcome === "cancelled", faults });
  },
};

function called(client, name, arguments_, options) {
  const params = { name, arguments: arguments_ };
  return mode === "sdk" ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

const client = await connect();
for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  const kind = Object.keys(steps).find((kind) => kind in step);
  await steps[kind](client, step);
}
await client.close();
