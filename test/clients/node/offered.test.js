// What the published TypeScript client does with a sandbox, done with ours.
import assert from "node:assert/strict";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  AuthError,
  BadRequestError,
  Client,
  CommandError,
  NotFoundError,
  Sandbox,
  SandboxTimeout,
} from "@pandastack/sdk";
import { TTL, client, collect, create } from "./server.js";

// A letter whose UTF-8 has the byte 0x85, U+0085, one beyond the basic plane.
const TEXT = "Å\u0085x 🐼 日本\u2028y\n";
let sandbox;
let context;

before(async () => {
  sandbox = await create({ metadata: { test: "published Å" } });
  context = await sandbox.createCodeContext();
});

after(async () => {
  await context?.close();
  await sandbox?.kill();
});

test("the README's calls", async () => {
  const mine = await create({ persistent: false, metadata: { app: "demo" } });
  assert.equal((await mine.exec("echo hello")).stdout, "hello\n");
  assert.match((await mine.exec("python3 --version", { timeoutSeconds: 10 })).stdout, /^Python 3\./);
  assert.equal((await mine.commands.run("echo alias")).stdout, "alias\n");
  assert.equal((await mine.runCode("print('hello')", "python")).stdout, "hello\n");
  assert.equal((await mine.runCode("echo hello", "shell")).stdout, "hello\n");
  await mine[Symbol.asyncDispose]();
  await assert.rejects(Sandbox.get(mine.id, client), NotFoundError);
});

test("what a sandbox says of itself", async () => {
  const again = await Sandbox.get(sandbox.id, client);
  assert.deepEqual([again.status, again.template, again.info.metadata], [
    "running",
    "code-interpreter",
    { test: "published Å" },
  ]);
  assert.ok(again.info.boot_ms > 0);
  const all = await client.sandboxes.list();
  assert.ok(all.some((one) => one.id === sandbox.id));
});

test("exec", async () => {
  const result = await sandbox.exec("printf out; printf err >&2; exit 3");
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ["out", "err", 3]);
  await assert.rejects(sandbox.exec("echo why >&2; false", { check: true }), (error) => {
    assert.ok(error instanceof CommandError);
    assert.deepEqual([error.exitCode, error.stderr], [1, "why\n"]);
    return true;
  });
  await assert.rejects(sandbox.exec("sleep 60", { timeoutSeconds: 1 }), SandboxTimeout);
});

test("exec stream", async () => {
  let out = "";
  let err = "";
  await sandbox.filesystem.write(
    "/tmp/text.py",
    `import sys; sys.stdout.write(${JSON.stringify(TEXT)}); sys.stderr.write('err'); sys.exit(7)`,
  );
  const onStdout = (chunk) => (out += chunk);
  const onStderr = (chunk) => (err += chunk);
  assert.equal(await sandbox.execStream("python3 /tmp/text.py", { onStdout, onStderr }), 7);
  assert.deepEqual([out, err], [TEXT, "err"]);
  assert.equal(await sandbox.execStream("kill -KILL $$"), 137);
  await assert.rejects(sandbox.execStream("sleep 60", { timeoutSeconds: 1 }), SandboxTimeout);
});

test("exec stream comes as it is printed", async () => {
  const came = [];
  await sandbox.execStream("for i in 1 2 3; do echo $i; sleep 1; done", { onStdout: () => came.push(Date.now()) });
  assert.equal(came.length, 3);
  assert.ok(came[0] < Date.now() - 2000);
});

test("files", async () => {
  const fs = sandbox.filesystem;
  assert.equal((await fs.write("/workspace/published/a b+Å.txt", TEXT)).bytes, Buffer.byteLength(TEXT));
  assert.equal(await fs.read("/workspace/published/a b+Å.txt"), TEXT);
  await fs.write("/workspace/published/deep/raw.bin", new Uint8Array([0, 255]));
  const stat = await fs.stat("/workspace/published/deep/raw.bin");
  assert.deepEqual([stat.name, stat.is_dir, stat.size], ["raw.bin", false, 2]);
  assert.deepEqual((await fs.list("/workspace/published")).map((one) => one.name).sort(), ["a b+Å.txt", "deep"]);
  assert.equal(await fs.exists("/workspace/none"), false);
  const walked = await collect(fs.walk("/workspace/published"));
  assert.deepEqual(
    walked.map((one) => [one.dir, one.dirs.map((d) => d.name), one.files.map((f) => f.name)]),
    [
      ["/workspace/published", ["deep"], ["a b+Å.txt"]],
      ["/workspace/published/deep", [], ["raw.bin"]],
    ],
  );
  const folder = await mkdtemp(join(tmpdir(), "published-"));
  await writeFile(join(folder, "up.txt"), TEXT);
  await fs.upload(join(folder, "up.txt"), "/workspace/up.txt");
  await fs.download("/workspace/up.txt", join(folder, "down.txt"));
  assert.equal(await readFile(join(folder, "down.txt"), "utf8"), TEXT);
  await assert.rejects(fs.read("/workspace/none"), NotFoundError);
  await assert.rejects(fs.read("/workspace"), BadRequestError);
});

test("a context keeps its variables and shows results", async () => {
  await context.runCode("import pandas as pd; df = pd.DataFrame({'revenue': [1, 2, 3]})");
  const table = await context.runCode("df.describe()");
  assert.match(table.results[0].html, /<table/);
  const figure = await context.runCode("import matplotlib.pyplot as plt; df['revenue'].plot(); plt.show()");
  assert.equal(Buffer.from(figure.png, "base64").subarray(1, 4).toString(), "PNG");
  const shown = await context.runCode("print('Å'); 6 * 7");
  assert.deepEqual([shown.stdout, shown.text], ["Å\n", "42"]);
  const failed = await context.runCode("print('before'); 1 / 0");
  assert.match(failed.error, /ZeroDivisionError: division by zero/);
  assert.deepEqual([failed.stdout, failed.exit_code], ["before\n", 1]);
});

test("a cell that takes too long", async () => {
  await context.runCode("kept = 1");
  const endless = "import time\nwhile True: time.sleep(0.05)";
  await assert.rejects(context.runCode(endless, { timeoutSeconds: 2 }), SandboxTimeout);
  assert.equal((await context.runCode("kept")).text, "1");
});

test("logs", async () => {
  const following = sandbox.logs({ follow: true });
  await sandbox.exec("echo 'on the console: Å' > /dev/console");
  for await (const line of following) if (line === "on the console: Å") break;
  assert.ok((await collect(sandbox.logs())).includes("on the console: Å"));
});

test("lifecycle", async () => {
  assert.equal((await sandbox.setTtl(TTL + 1)).ttl_seconds, TTL + 1);
  assert.equal((await sandbox.setPersistent(true)).persistent, true);
  assert.equal((await sandbox.setPersistent(false)).persistent, false);
  assert.ok((await sandbox.lifecycle()).idle_seconds >= 0);
});

test("states", async () => {
  await context.runCode("rested = 7");
  for (const [rest, again, status] of [
    ["pause", "resume", "paused"],
    ["hibernate", "wake", "hibernated"],
  ]) {
    await sandbox[rest]();
    assert.equal((await Sandbox.get(sandbox.id, client)).status, status);
    await sandbox[again]();
  }
  await sandbox.hibernate();
  assert.equal((await context.runCode("rested")).text, "7"); // wakes it
});

test("snapshots", async () => {
  const taken = await sandbox.snapshot();
  assert.equal(taken.sandbox_id, sandbox.id);
  assert.equal((await client.snapshots.get(taken.id)).id, taken.id);
  assert.ok((await client.snapshots.list()).some((one) => one.id === taken.id));
  const made = await create({ fromSnapshot: taken.id });
  try {
    assert.equal((await made.exec("echo up")).stdout, "up\n");
  } finally {
    await made.kill();
  }
  await client.snapshots.delete(taken.id);
  await assert.rejects(client.snapshots.get(taken.id), NotFoundError);
});

test("copies", async () => {
  const one = await sandbox.fork({ metadata: { copy: "one" } });
  assert.equal((await Sandbox.get(one.id, client)).info.metadata.copy, "one");
  await one.kill();
  const [winner, loser] = await sandbox.forkTree({ count: 2 });
  const promoted = await winner.promote({ cleanupSiblings: true });
  assert.deepEqual([promoted.winner, promoted.deleted], [winner.id, [loser.id]]);
  await winner.kill();
});

test("templates", async () => {
  const all = await client.templates.list();
  assert.ok(all.some((one) => one.name === "code-interpreter"));
  assert.equal((await client.templates.get("code-interpreter")).name, "code-interpreter");
  await assert.rejects(client.templates.get("none"), NotFoundError);
});

test("errors", async () => {
  const stranger = new Client({ apiKey: "wrong" });
  await assert.rejects(stranger.sandboxes.list(), (error) => error instanceof AuthError && error.statusCode === 401);
  await assert.rejects(Sandbox.get("none", client), NotFoundError);
  await assert.rejects(create({ template: "none" }), NotFoundError);
  await assert.rejects(create({ ttlSeconds: -1 }), BadRequestError);
});
