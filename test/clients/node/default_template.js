// What the published TypeScript client gets that names no template.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Sandbox } from "@pandastack/sdk";
import { TTL, client } from "./server.js";

test("the default template", async () => {
  const sandbox = await Sandbox.create({ ttlSeconds: TTL }, client);
  try {
    assert.equal(sandbox.template, "base");
    assert.equal((await Sandbox.get(sandbox.id, client)).template, "base");
    assert.equal((await sandbox.runCode("echo hello")).stdout, "hello\n");
  } finally {
    await sandbox.kill();
  }
});
