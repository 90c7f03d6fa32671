// Every other method of the published TypeScript client answers 501 with a code and a hint.
import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ServerError } from "@pandastack/sdk";
import { answers, client, collect, create } from "./server.js";

const folder = await mkdtemp(join(tmpdir(), "published-"));
const file = join(folder, "handler.js");
await writeFile(file, "exports.handler = (event) => event;\n");

// What a method is called with, where it is not one or two strings.
const ARGUMENTS = {
  "functions.create": ["x", "nodejs", "code"],
  "functions.deploy": [{ name: "x", runtime: "nodejs", code: "x" }],
  "functions.deployBundle": ["x", new Uint8Array([1]), "handler.js"],
  "schedules.create": ["x", "y", "* * * * *"],
  "databases.create": [{}],
  "apps.create": [{ name: "x", gitUrl: "https://git.example/x" }],
  "apps.update": ["x", {}],
  "templates.build": [{ name: "x", rootfs: file }],
  "templates.register": [{ name: "x", imageRef: "y" }],
  "templates.buildFromDockerfile": [{ name: "x", dockerfile: "FROM scratch" }],
};
// These make a bare Error of any answer that is not 200.
const BARE = ["functions.getCode", "functions.deployBundle"];
const OFFERED = ["templates.list", "templates.get"];

async function refused(call, kind = ServerError) {
  answers.length = 0;
  await assert.rejects(async () => {
    const result = await call();
    if (result?.[Symbol.asyncIterator]) await collect(result);
  }, kind);
  assert.equal(answers.length, 1);
  assert.equal(answers[0].status, 501);
  const body = await answers[0].json();
  assert.equal(body.code, "feature.not_offered");
  assert.ok(body.error && body.hint);
}

function methods(object) {
  return Object.getOwnPropertyNames(Object.getPrototypeOf(object)).filter(
    (name) => name !== "constructor" && !name.startsWith("_") && typeof object[name] === "function",
  );
}

for (const namespace of [
  "apps",
  "databases",
  "functions",
  "schedules",
  "templates",
  "tokens",
  "volumes",
]) {
  for (const method of methods(client[namespace])) {
    const name = `${namespace}.${method}`;
    if (OFFERED.includes(name)) continue;
    const call = () => client[namespace][method](...(ARGUMENTS[name] ?? ["x", "y"]));
    test(name, () => refused(call, BARE.includes(name) ? Error : ServerError));
  }
}

test("me", () => refused(() => client.me()));

test("create with what is not offered", async () => {
  await refused(() => create({ volumes: [{ name: "x" }] }));
});

let sandbox;
before(async () => {
  sandbox = await create();
});
after(() => sandbox?.kill());

test("sandbox.previewUrls", () => refused(() => sandbox.previewUrls()));
