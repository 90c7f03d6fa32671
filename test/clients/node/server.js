// What the tests share: the server that the environment names, and its answers.
import assert from "node:assert/strict";
import { Client, Sandbox } from "@pandastack/sdk";

for (const name of ["PANDASTACK_API", "PANDASTACK_API_KEY"]) {
  assert.ok(process.env[name], `${name} is not set: these tests need a server`);
}

// Seconds after which a sandbox of a test run that was killed is gone.
export const TTL = 1800;

// The answers, because methods that stream do not hand theirs out.
export const answers = [];
const plain = globalThis.fetch;
globalThis.fetch = async (...request) => {
  const answer = await plain(...request);
  answers.push(answer.clone());
  return answer;
};

// A busy machine under emulation is slow: the client's own 30 s cover starts too.
export const client = new Client({ timeoutMs: 120_000 });

export function create(options = {}) {
  return Sandbox.create({ template: "code-interpreter", ttlSeconds: TTL, ...options }, client);
}

export async function collect(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}
